// What streams in from the server, in bounded lists. Listeners are told at most once per frame.

const MOST_ROWS = 2000;
const MOST_SECONDS = 300;

class Store {
  constructor() {
    this.rows = []; // newest last
    this.seconds = [];
    this.seq = 0;
    this.tick = 0;
    this.skipped = 0; // decisions that this page has not been told
    this.total = 0;
    this.troubles = [];
    this.offset = 0; // the server's clock minus ours, in ms
    this.state = "waiting"; // waiting, open
    this.listeners = new Set();
    this.frame = 0;
    this.source = null;
  }

  start() {
    if (this.source) return;
    this.source = new EventSource("/api/stream");
    this.source.addEventListener("batch", (e) => this.take(JSON.parse(e.data)));
    this.source.onopen = () => this.become("open");
    this.source.onerror = () => {
      this.become("waiting");
      if (this.source.readyState === EventSource.CLOSED) {
        this.stop(); // the server refused; who asks it next is told why
        this.again = setTimeout(() => this.start(), 3000);
      }
    };
  }

  stop() {
    clearTimeout(this.again);
    this.source?.close();
    this.source = null;
  }

  become(state) {
    if (this.state === state) return;
    this.state = state;
    this.changed();
  }

  take(b) {
    this.offset = b.now_ms - Date.now();
    this.seq = b.seq;
    this.tick = b.tick;
    this.troubles = b.troubles;
    this.skipped += b.skipped ?? 0;
    this.total += b.rows.length + (b.skipped ?? 0);
    if (b.rows.length > 0) {
      if (this.rows.length > 0 && b.rows[0].seq <= this.rows[this.rows.length - 1].seq) this.rows = [];
      this.rows.push(...b.rows);
      if (this.rows.length > MOST_ROWS) this.rows = this.rows.slice(-MOST_ROWS);
    }
    if (b.seconds) {
      this.seconds.push(...b.seconds);
      if (this.seconds.length > MOST_SECONDS) this.seconds = this.seconds.slice(-MOST_SECONDS);
    }
    this.changed();
  }

  now() {
    return Date.now() + this.offset;
  }

  // on tells f of changes, once per frame at most; the answer ends that.
  on(f) {
    this.listeners.add(f);
    return () => this.listeners.delete(f);
  }

  changed() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      for (const f of [...this.listeners]) f();
    });
  }
}

export const store = new Store();

// poll asks again and again while a view is shown, never twice at once, nor while the page is hidden. everyMs may be a
// function of what was answered. now() asks at once; while an answer is under way, which may be older than what was
// just done, it is asked once more behind it.
export function poll(everyMs, ask, take, fail) {
  const over = new AbortController();
  let timer = 0;
  let running = false;
  let again = false;
  const turn = async () => {
    clearTimeout(timer);
    if (running) {
      again = true;
      return;
    }
    running = true;
    do {
      again = false;
      if (over.signal.aborted) return;
      if (document.hidden) break;
      try {
        const answer = await ask(over.signal);
        if (over.signal.aborted) return;
        take(answer);
      } catch (cause) {
        if (over.signal.aborted) return;
        fail?.(cause);
      }
    } while (again);
    running = false;
    timer = setTimeout(turn, typeof everyMs === "function" ? everyMs() : everyMs);
  };
  turn();
  return {
    stop() {
      over.abort();
      clearTimeout(timer);
    },
    now: turn,
  };
}

"""LangGraph over a running sidecar, with the policy docs/examples/notes.yaml; HENCE_SINK is its file of lines."""

import asyncio
import json
import os
import random
import threading
import time
import unittest
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import hence
from hence import _core

try:
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langgraph.checkpoint.memory import MemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    from hence.langgraph import HenceStore, HenceToolNode
except ImportError as e:
    raise unittest.SkipTest(f"{e}: pip install 'hence-client[langgraph]'") from e

TURNS = int(os.environ.get("HENCE_PY_TURNS", "10"))
ROUNDS = int(os.environ.get("HENCE_PY_ROUNDS", "2"))
NULLS = int(os.environ.get("HENCE_PY_NULLS", "20"))
WIDTH = 5
bare_sink = []


@tool("board.post")
def post(line: str) -> str:
    """Post a line."""
    bare_sink.append(line)
    return "posted"


@tool
def look(q: str) -> str:
    """Look something up."""
    return "seen " + q


def graph(node, **more):
    g = StateGraph(MessagesState)
    g.add_node("tools", node)
    g.add_edge(START, "tools")
    g.add_edge("tools", END)
    return g.compile(**more)


def sink():
    try:
        with open(os.environ["HENCE_SINK"], encoding="utf-8") as f:
            return f.read().split()
    except FileNotFoundError:
        return []


class Barriers:
    """Lets the calls of a turn through in an order of the seed that is not the model's."""

    def __init__(self, seed, ids):
        order = list(ids)
        while order == list(ids):
            random.Random(seed).shuffle(order)
            seed += 1
        self.before = dict(zip(order[1:], order))
        self.events = {i: threading.Event() for i in ids}
        self.tasks = {i: asyncio.Event() for i in ids}

    def wrap(self, request, execute):
        call = request.tool_call["id"]
        if call in self.before and not self.events[self.before[call]].wait(20):
            raise TimeoutError(call)
        out = execute(request)
        self.events[call].set()
        return out

    async def awrap(self, request, execute):
        call = request.tool_call["id"]
        if call in self.before:
            await asyncio.wait_for(self.tasks[self.before[call]].wait(), 20)
        out = await execute(request)
        self.tasks[call].set()
        return out


def turn(n, mark):
    return [{"name": "board.post", "args": {"line": f"{mark}-{n}-{i}"}, "id": f"{mark}-{n}-{i}"} for i in range(WIDTH)]


class Order(unittest.TestCase):
    def in_order(self, lines, mark):
        lines = [line for line in lines if line.startswith(mark)]
        whole = [f"{mark}-{n}-{i}" for n in range(TURNS) for i in range(WIDTH)]
        kept = sum([x for x in lines if x.split("-")[1] == str(n)] == whole[n * WIDTH:(n + 1) * WIDTH]
                   for n in range(TURNS))
        return kept, len(set(whole) - set(lines)), len(lines) - len(set(lines))

    def turns(self, kind, mark, is_async):
        for n in range(TURNS):
            calls = turn(n, mark)
            b = Barriers(n, [c["id"] for c in calls])
            app = graph(kind([post], wrap_tool_call=b.wrap, awrap_tool_call=b.awrap))
            given = {"messages": [AIMessage("", tool_calls=calls)]}
            config = {"max_concurrency": WIDTH}
            out = asyncio.run(app.ainvoke(given, config)) if is_async else app.invoke(given, config)
            self.assertEqual([m.tool_call_id for m in out["messages"][1:]], [c["id"] for c in calls])
            self.assertEqual({m.status for m in out["messages"][1:]}, {"success"}, out)

    def both(self, is_async):
        mark = uuid.uuid4().hex[:8]
        self.turns(ToolNode, mark, is_async)
        bare = self.in_order(bare_sink, mark)
        self.turns(HenceToolNode, mark, is_async)
        until = time.monotonic() + 20
        while self.in_order(sink(), mark)[1] and time.monotonic() < until:
            time.sleep(0.02)  # held calls leave after the commit
        ours = self.in_order(sink(), mark)
        print(f"\nToolNode {'async' if is_async else 'sync'}, turns x {WIDTH} in issuance order: {ours[0]} of {TURNS}, "
              f"{ours[1]} lost; bare {bare[0]} of {TURNS}", flush=True)
        self.assertEqual(ours, (TURNS, 0, 0))
        self.assertEqual(bare, (0, 0, 0))

    def test_sync(self):
        self.both(False)

    def test_async(self):
        self.both(True)


class Node(unittest.TestCase):
    def test_unknown_local_tool_is_refused(self):
        given = {"messages": [AIMessage("", tool_calls=[{"name": "look", "args": {"q": "a"}, "id": "1"}])]}
        with self.assertRaisesRegex(hence.UnknownLocalTool, "hence.reads"):
            graph(HenceToolNode([look])).invoke(given)

    def test_local_tools_that_act_keep_their_order(self):
        said = []

        @tool
        def say(word: str) -> str:
            """Say a word."""
            said.append(word)
            return word

        calls = [{"name": "say", "args": {"word": str(i)}, "id": f"s{i}"} for i in range(12)]
        node = HenceToolNode([hence.acts(say)])
        given = {"messages": [AIMessage("", tool_calls=calls)]}
        graph(node).invoke(given)
        asyncio.run(graph(node).ainvoke(given))
        self.assertEqual(said, [str(i) for i in range(12)] * 2)

    def test_replayed_checkpoint_is_the_same_transaction(self):
        line = uuid.uuid4().hex
        calls = [{"name": "board.post", "args": {"line": line}, "id": line}]
        app = graph(HenceToolNode([post]), checkpointer=MemorySaver())
        config = {"configurable": {"thread_id": line}}
        first = app.invoke({"messages": [AIMessage("", tool_calls=calls)]}, config)
        before = [s for s in app.get_state_history(config) if s.next == ("tools",)][0]
        again = app.invoke(None, before.config)
        tx = [m.artifact["tx"] for out in (first, again) for m in out["messages"] if m.type == "tool"]
        self.assertEqual(len(set(tx)), 1, tx)


class Store(unittest.TestCase):
    def test_items(self):
        store, ns = HenceStore(), ("mem/ory", uuid.uuid4().hex)
        store.put(ns, "a b", {"x": 1})
        self.assertEqual(store.get(ns, "a b").value, {"x": 1})
        self.assertEqual([i.key for i in store.search(ns)], ["a b"])
        self.assertIn(ns, store.list_namespaces(prefix=ns))
        store.delete(ns, "a b")
        self.assertIsNone(store.get(ns, "a b"))

    def appends(self, make):
        """Four writers read in lockstep, think, and put what they read with a line more, six times."""
        gate, ns, lost = threading.Barrier(4), ("log", uuid.uuid4().hex), []

        def writer(n):
            update = make(n)
            for k in range(6):
                update(ns, f"{n}.{k}", gate)

        threads = [threading.Thread(target=writer, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return ns

    def test_lost_appends(self):
        from langgraph.store.memory import InMemoryStore
        ours, bare = [], []
        for _ in range(ROUNDS):
            plain = InMemoryStore()

            def without(n):
                def update(ns, line, gate):
                    item = plain.get(ns, "lines")
                    gate.wait(20)
                    plain.put(ns, "lines", {"all": (item.value["all"] if item else []) + [line]})
                    gate.wait(20)
                return update

            def within(n):
                store = HenceStore(hence.Client(session=f"app-{n}-{uuid.uuid4().hex[:6]}", attempts=50))

                def update(ns, line, gate):
                    met = []

                    def work(value):
                        if not met:  # all have read before any puts; a further attempt is on its own
                            met.append(gate.wait(20))
                        return {"all": (value["all"] if value else []) + [line]}
                    store.update(ns, "lines", work)
                    gate.wait(20)
                return update

            ns = self.appends(without)
            bare.append(24 - len(plain.get(ns, "lines").value["all"]))
            ns = self.appends(within)
            ours.append(24 - len(set(HenceStore().get(ns, "lines").value["all"])))
        print(f"\nlost appends of 24, {ROUNDS} rounds: {ours}; bare {bare}", flush=True)
        self.assertEqual(ours, [0] * ROUNDS)
        self.assertEqual(bare, [18] * ROUNDS)

    def test_null_overwrite(self):
        """deer-flow's case: a node that has seen nothing emits None over another one's todos."""
        ends = named = 0
        a = hence.Client(session="planner-" + uuid.uuid4().hex[:6])
        b = hence.Client(session="nuller-" + uuid.uuid4().hex[:6])
        for n in range(NULLS):
            at = f"todos/{uuid.uuid4().hex}"
            null = b.tx().begin()
            null.get(at)
            with a.tx() as t:
                t[at] = ["buy", "cook"]
            try:
                null[at] = None
                null.seal()
            except hence.StaleRead as p:
                named += p.decision["tx"] == null.id and p.moved_by == t.id and p.scope == "shard:/" + at
            with a.tx() as t:
                ends += t[at] == ["buy", "cook"]
        print(f"\nnull overwrite: {ends} of {NULLS} end with the non-null value, {named} nulls named in a decision",
              flush=True)
        self.assertEqual((ends, named), (NULLS, NULLS))


class Cut(BaseHTTPRequestHandler):
    """A sidecar that has no shard, and whose commits are cut off: whether they count is not known."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.split("?")[0].endswith("/commit"):
            self.close_connection = True
            return
        text = json.dumps({"items": [{"scope": s, "exists": False, "version": 0} for s in asked["scopes"]]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Ends(unittest.TestCase):
    def test_update_whose_end_is_unknown(self):
        """Work that may count is not done a second time."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), Cut)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        store, done = HenceStore(hence.Client(f"http://127.0.0.1:{server.server_port}", "t", patience=0)), []
        with self.assertRaises(hence.Unavailable):
            store.update(("ns",), "n", lambda value: done.append(value) or {"n": 1})
        server.shutdown()
        server.server_close()
        self.assertEqual(done, [None])

    def test_refused_call_leaves_nothing_open(self):
        """A turn that ends with an error of a call is over: it would hold what it has until its deadline."""
        client = hence.Client()
        path = f"/v1/workspaces/{client.config.workspace}/tx"

        def still():
            return {t["tx"] for t in client.drive(_core.ask(client.config, "GET", path, query={"state": "open"}))["items"]}

        for is_async in (False, True):
            before, mark = still(), uuid.uuid4().hex[:8]
            calls = [{"name": "board.post", "args": args, "id": f"{mark}-{i}"}
                     for i, args in enumerate([{"line": mark}, {"lines": mark}])]
            app, given = graph(HenceToolNode([post])), {"messages": [AIMessage("", tool_calls=calls)]}
            with self.assertRaises(hence.Problem):
                asyncio.run(app.ainvoke(given)) if is_async else app.invoke(given)
            self.assertEqual(still() - before, set())


if __name__ == "__main__":
    unittest.main()

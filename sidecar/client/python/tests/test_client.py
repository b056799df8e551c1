"""The clients over a running sidecar: HENCE_URL names it, as `hence dev` with tests/policy.yaml."""

import asyncio
import itertools
import os
import tempfile
import threading
import unittest
import uuid

import hence


def name(kind):
    return f"{kind}/{uuid.uuid4().hex}"


class Sync(unittest.TestCase):
    def test_values(self):
        at = name("values")
        for value in ({"a": [1, None]}, "text", b"\x00\xff", 7, None, []):
            with hence.tx() as t:
                t[at] = value
            with hence.tx() as t:
                self.assertEqual(t[at], value)
        self.assertEqual(t.decision["state"], "committed")

    def test_absent(self):
        with self.assertRaises(KeyError), hence.tx() as t:
            t[name("absent")]
        with hence.tx() as t:
            self.assertEqual(t.get(name("absent"), 5), 5)

    def test_exception_aborts(self):
        at = name("abort")
        with self.assertRaises(ZeroDivisionError), hence.tx() as t:
            t[at] = 1
            1 // 0
        with hence.tx() as again:
            self.assertIsNone(again.get(at))
        state = hence.default().drive(hence._core.status(hence.default().config, t.id))
        self.assertEqual((state["state"], state["code"]), ("aborted", "aborted_by_agent"))

    def test_stale_read_is_typed(self):
        at, other = name("stale"), hence.Client(session="other")
        with self.assertRaises(hence.StaleRead) as caught, hence.tx() as t:
            t.get(at)
            with other.tx() as o:
                o[at] = 1
            t[at] = 2
        self.assertTrue(caught.exception.retryable)
        self.assertEqual(caught.exception.scope, "shard:/" + at)
        self.assertEqual(caught.exception.moved_by, o.id)
        self.assertIn("shard:/" + at, caught.exception.re_read)

    def test_decorator_loses_no_update(self):
        at = name("count")

        def work(n):
            client = hence.Client(session=f"w{n}", attempts=50)

            @client.transaction
            def add(t):
                t[at] = t.get(at, 0) + 1

            for _ in range(5):
                add()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with hence.tx() as t:
            self.assertEqual(t[at], 20)

    def test_bound_of_attempts(self):
        at, tries, other = name("bound"), itertools.count(), hence.Client(session="other")

        @hence.transaction(attempts=3)
        def never(t):
            t.get(at)
            with other.tx() as o:
                o[at] = next(tries)
            t[at] = "mine"

        with self.assertRaises(hence.StaleRead):
            never()
        self.assertEqual(next(tries), 3)

    def test_key_begins_once(self):
        key = uuid.uuid4().hex
        a, b = hence.tx(key=key).begin(), hence.tx(key=key).begin()
        self.assertEqual(a.id, b.id)
        a.abort("test")

    def test_bad_request(self):
        with self.assertRaises(hence.BadRequest) as caught, hence.tx() as t:
            t.write("a/b", 1, if_version=-1)
        self.assertEqual(caught.exception.code, "bad_request")
        with self.assertRaises(hence.Forbidden):
            hence.Client(token="wrong").tx().begin()

    def test_nobody_there(self):
        with self.assertRaises(hence.Unavailable):
            hence.Client("http://127.0.0.1:9", "t", patience=0.1).tx().begin()

    def test_decisions(self):
        with hence.tx() as t:
            t[name("seen")] = 1
        seen = next(hence.decisions(after=0, tx=t.id, kind="committed"))
        self.assertEqual(seen["kind"], "committed")

    def test_tools(self):
        self.assertIn("board.post", [offer["name"] for offer in hence.tools()])
        with hence.tx() as t:
            t.plan(["a", "b"])
            self.assertEqual(t.call("board.post", {"line": "second"}, call="b")["state"], "held")
            self.assertEqual(t.call("board.post", {"line": "first"}, call="a")["index"], 0)


class Async(unittest.IsolatedAsyncioTestCase):
    async def asyncTearDown(self):
        await hence.aio.default().close()

    async def test_values(self):
        at = name("values")
        async with hence.aio.tx() as t:
            await t.set(at, {"a": "ä"})
        async with hence.aio.tx() as t:
            self.assertEqual(await t[at], {"a": "ä"})

    async def test_decorator_loses_no_update(self):
        at = name("count")

        async def work(n):
            client = hence.aio.Client(session=f"a{n}", attempts=50)

            @client.transaction
            async def add(t):
                await t.set(at, await t.get(at, 0) + 1)

            for _ in range(5):
                await add()
            await client.close()

        await asyncio.gather(*(work(n) for n in range(4)))
        async with hence.aio.tx() as t:
            self.assertEqual(await t[at], 20)

    async def test_exception_aborts(self):
        with self.assertRaises(ZeroDivisionError):
            async with hence.aio.tx() as t:
                1 // 0
        client = hence.aio.default()
        state = await client.drive(hence._core.status(client.config, t.id))
        self.assertEqual(state["state"], "aborted")

    async def test_decisions(self):
        async with hence.aio.tx() as t:
            await t.set(name("seen"), 1)
        stream = hence.aio.decisions(after=0, tx=t.id, kind="committed")
        async for seen in stream:
            self.assertEqual(seen["kind"], "committed")
            break
        await stream.aclose()

    async def test_large(self):
        at, body = name("large"), b"x" * 200_000
        async with hence.aio.tx() as t:
            await t.set(at, body)
        async with hence.aio.tx() as t:
            self.assertEqual(await t[at], body)


class Signed(unittest.TestCase):
    def test_a_key_in_place_of_a_token(self):
        client, at = hence.Client(key_file=os.environ["HENCE_CLIENT_KEY"]), name("signed äöü")
        with client.tx() as t:
            t[at] = {"a": "ä"}
        self.assertEqual(t.decision["signer"], client.config.signer.keyid)
        with client.tx() as t:
            self.assertEqual(t[at], {"a": "ä"})
        first = next(iter(client.decisions(after=0, kind="committed")))
        self.assertEqual(first["kind"], "committed")

    def test_in_asyncio(self):
        async def go():
            client = hence.aio.Client(key_file=os.environ["HENCE_CLIENT_KEY"])
            async with client.tx() as t:
                await t.set(name("signed"), "1")
            await client.close()
            return t.decision["signer"], client.config.signer.keyid

        self.assertEqual(*asyncio.run(go()))

    def test_a_key_that_others_can_read(self):
        with tempfile.NamedTemporaryFile() as f:
            os.chmod(f.name, 0o640)
            with self.assertRaisesRegex(hence.HenceError, "chmod 600"):
                hence.Client(key_file=f.name)

    def test_each_try_is_signed_anew(self):
        c = hence._core.config("http://x", key_file=os.environ["HENCE_CLIENT_KEY"])
        flow = hence._core.ask(c, "POST", "/v1/x", {"a": 1})
        first = next(flow)
        self.assertNotIn("Authorization", first.headers)
        seen = b'{"code":"signature_seen","retryable":true,"safe_to_retry_with_same_key":true}'
        self.assertIsInstance(flow.send(hence._core.Answer(401, {}, seen)), float)
        second = flow.send(None)
        self.assertEqual(first.headers["Idempotency-Key"], second.headers["Idempotency-Key"])
        self.assertNotEqual(first.headers["Signature"], second.headers["Signature"])


class Parsing(unittest.TestCase):
    def test_events_cut_anywhere(self):
        text = b": c\n\nid: 1\nevent: a\ndata: {\ndata: }\n\nid: 2\n\nid: 3\r\ndata: x\r\n\r\n"
        for cut in range(len(text)):
            events = hence._core.Events()
            out = events.feed(text[:cut]) + events.feed(text[cut:])
            self.assertEqual(out, [("1", "a", "{\n}"), ("3", "", "x")])
            self.assertEqual(events.last, "3")

    def test_in_flight_is_asked_again(self):
        flow = hence._core.ask(hence._core.config("http://x", "t"), "POST", "/v1/x", {})
        first = next(flow)
        busy = b'{"code":"idempotency_key_in_flight","retryable":true,"safe_to_retry_with_same_key":true}'
        self.assertIsInstance(flow.send(hence._core.Answer(409, {}, busy)), float)
        second = flow.send(None)
        self.assertEqual(first.headers["Idempotency-Key"], second.headers["Idempotency-Key"])
        third = flow.throw(ConnectionResetError())
        self.assertIsInstance(third, float)
        with self.assertRaises(StopIteration) as done:
            flow.send(None)
            flow.send(hence._core.Answer(200, {}, b'{"ok":1}'))
        self.assertEqual(done.exception.value, {"ok": 1})


if __name__ == "__main__":
    unittest.main()

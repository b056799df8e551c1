import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createServer } from 'node:http'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { Client, Forbidden, HenceError, NotFound, StaleRead, ToolFailed, Unavailable, VersionMismatch, events } from 'hence-client'

const client = new Client()
const name = (what) => `ts/${what}/${crypto.randomUUID()}`

test('a transaction commits what it wrote, as JSON, text and bytes', async () => {
  const at = name('kinds')
  const d = await client.transaction(async (tx) => {
    await tx.set(at + '/json', { left: 10 })
    await tx.set(at + '/text', 'ten')
    await tx.set(at + '/bytes', new Uint8Array([0, 255]))
    assert.equal(await tx.get(at + '/none'), undefined)
    return tx
  })
  assert.equal(d.decision.state, 'committed')
  await client.transaction(async (tx) => {
    assert.deepEqual(await tx.get(at + '/json'), { left: 10 })
    assert.equal(await tx.get(at + '/text'), 'ten')
    assert.deepEqual(await tx.get(at + '/bytes'), new Uint8Array([0, 255]))
  })
})

test('refused work is done again on what is there now', async () => {
  const at = name('again')
  let tries = 0
  await client.transaction((tx) => tx.set(at, 1))
  await client.transaction(async (tx) => {
    const before = await tx.get(at)
    if (++tries === 1) await client.transaction((other) => other.set(at, 10))
    await tx.set(at, before + 1)
  })
  assert.equal(tries, 2)
  assert.equal(await client.transaction((tx) => tx.get(at)), 11)
})

test('eight writers lose no update', async () => {
  const at = name('eight')
  await client.transaction((tx) => tx.set(at, 0))
  const one = () => client.transaction(async (tx) => tx.set(at, (await tx.get(at)) + 1), { attempts: 60 })
  await Promise.all(Array.from({ length: 8 }, one))
  assert.equal(await client.transaction((tx) => tx.get(at)), 8)
})

test('a refusal says what to read again, and is not tried for ever', async () => {
  const at = name('bound')
  await client.transaction((tx) => tx.set(at, 1))
  await assert.rejects(client.transaction(async (tx) => {
    await tx.get(at)
    await client.transaction((other) => other.set(at, Math.random()))
    await tx.set(at, 2)
  }, { attempts: 2 }), (e) => e instanceof StaleRead && e.code === 'stale_read' && e.reRead[0] === 'shard:/' + at && e.again)
  await assert.rejects(client.transaction((tx) => tx.set(at, 2, { if_version: 1 })), VersionMismatch)
})

test('an error of the work aborts it', async () => {
  const at = name('error')
  const boom = new Error('boom')
  let id
  await assert.rejects(client.transaction(async (tx) => {
    id = tx.id
    await tx.set(at, 1)
    throw boom
  }), boom)
  assert.equal((await client.ask('GET', '/v1/tx/' + id)).state, 'aborted')
  const tx = await client.begin()
  await tx[Symbol.asyncDispose]()
  assert.equal(tx.decision.state, 'aborted')
})

test('a held call leaves after the commit, and never of one that was aborted', async () => {
  const line = crypto.randomUUID()
  const tools = await client.tools()
  assert.ok(tools.find((t) => t.name === 'board.post'))
  const tx = await client.begin()
  assert.equal((await tx.call('board.post', { line })).state, 'held')
  await tx.abort('no')
  const receipt = await client.transaction((tx) => tx.call('board.post', { line: 'sent ' + line }))
  assert.equal(receipt.state, 'held')
  for (let i = 0; i < 200 && !sink().includes('sent ' + line); i++) await new Promise((done) => setTimeout(done, 20))
  assert.ok(sink().includes('sent ' + line))
  assert.ok(!sink().split('\n').includes(line))
})

const sink = () => (fs.existsSync(process.env.HENCE_SINK) ? fs.readFileSync(process.env.HENCE_SINK, 'utf8') : '')

test('one key begins one transaction', async () => {
  const key = crypto.randomUUID()
  const [a, b] = [await client.begin({ key }), await client.begin({ key })]
  assert.equal(a.id, b.id)
  await a.abort()
})

test('decisions come once each', async () => {
  const at = name('stream')
  const stop = new AbortController()
  const first = await client.transaction(async (tx) => (await tx.set(at, 0), tx))
  const seen = []
  const watching = (async () => {
    for await (const e of client.decisions({ after: first.decision.seq, signal: stop.signal })) {
      if (e.kind === 'decision' || e.data) seen.push(e)
      if (seen.length === 3) stop.abort()
    }
  })()
  for (let i = 0; i < 3; i++) await client.transaction((tx) => tx.set(at, i))
  await watching
  assert.equal(new Set(seen.map((e) => e.id)).size, 3)
})

test('a stream is read alike wherever it is cut', async () => {
  const text = new TextEncoder().encode('id: 1\nevent: a\ndata: {"x":\ndata: 1}\n\n: ping\r\nid: 2\r\ndata: ü\r\n\r\n')
  for (let at = 0; at <= text.length; at++) {
    const got = []
    for await (const e of events((async function* () { yield text.slice(0, at); yield text.slice(at) })())) got.push(e)
    assert.deepEqual(got, [{ id: '1', event: 'a', data: '{"x":\n1}' }, { id: '2', event: '', data: 'ü' }])
  }
})

test('what is wrong is told by its kind', async () => {
  await assert.rejects(new Client({ token: 'wrong' }).begin(), Forbidden)
  await assert.rejects(client.ask('GET', '/v1/none'), NotFound)
  await assert.rejects(new Client({ url: 'http://127.0.0.1:1', patienceMs: 100 }).begin(), Unavailable)
  assert.throws(() => new Client({ url: 'ftp://x' }), HenceError)
  await assert.rejects(client.transaction((tx) => tx.call('note.write', { name: '../x', text: 'x' })), (e) =>
    e instanceof ToolFailed || e.status === 400 || e.status === 409 || e.status === 422)
})

test('a request whose answer is lost is sent again under its key, and one that is foreign is told', async () => {
  const keys = []
  const server = createServer((request, response) => {
    keys.push(request.headers['idempotency-key'])
    if (keys.length === 1) return request.socket.destroy()
    if (keys.length === 2) return response.writeHead(503, { 'Content-Type': 'application/problem+json' }).end(
      '{"code":"not_ready","status":503,"retryable":true,"safe_to_retry_with_same_key":true}')
    if (keys.length === 3) return response.end('{"tx":"a.1.1"}')
    response.writeHead(418).end('teapot')
  }).listen(0)
  const url = `http://127.0.0.1:${server.address().port}`
  const there = new Client({ url })
  assert.equal((await there.begin()).id, 'a.1.1')
  assert.equal(new Set(keys).size, 1)
  await assert.rejects(there.begin(), (e) => e.code === 'foreign_answer')
  server.close()
  server.closeAllConnections()
})

test('a key signs in place of a token, and each try anew', async () => {
  const key = fs.readFileSync(process.env.HENCE_CLIENT_KEY, 'utf8')
  const signs = new Client({ key })
  const at = name('signed äöü')
  const d = await signs.transaction(async (tx) => {
    await tx.set(at, { a: 'ä' })
    return tx
  })
  assert.match(d.decision.signer, /^[\w-]{43}$/)
  for await (const e of signs.decisions({ after: 0, kind: 'committed' })) {
    assert.equal(e.kind, 'committed')
    break
  }
  const seen = []
  const again = new Client({ key, fetch: async (url, { headers }) => {
    seen.push(headers)
    return seen.length > 1 ? Response.json({ tx: 'a.1.1' }) : Response.json({ code: 'signature_seen', status: 401 }, { status: 401 })
  } })
  await again.begin()
  assert.equal(seen[0].Authorization, undefined)
  assert.equal(seen[0]['Idempotency-Key'], seen[1]['Idempotency-Key'])
  assert.notEqual(seen[0].Signature, seen[1].Signature)
  await assert.rejects(new Client({ key: 'none' }).begin(), HenceError)
})

test('the shapes are those of the sidecar', async () => {
  const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'hence-')), 'openapi.json')
  fs.writeFileSync(file, await (await fetch(process.env.HENCE_URL + '/v1/openapi.json')).text())
  const script = path.join(process.env.HENCE_CLIENT_SOURCE, 'scripts/shapes.mjs')
  execFileSync(process.execPath, [script, file, '--check'])
  fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace('"Decision"', '"Decisions"'))
  assert.throws(() => execFileSync(process.execPath, [script, file, '--check'], { stdio: 'pipe' }))
})

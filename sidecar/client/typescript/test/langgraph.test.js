import assert from 'node:assert/strict'
import fs from 'node:fs'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { AIMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { MemorySaver, MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { ToolNode } from '@langchain/langgraph/prebuilt'
import { z } from 'zod'
import { Client, StaleRead, Unavailable } from 'hence-client'
import { HenceStore, HenceToolNode, UnknownLocalTool, acts, reads } from 'hence-client/langgraph'

const turns = Number(process.env.HENCE_JS_TURNS ?? 10)
const rounds = Number(process.env.HENCE_JS_ROUNDS ?? 2)
const nulls = Number(process.env.HENCE_JS_NULLS ?? 20)
const width = 5
const sink = () => (fs.existsSync(process.env.HENCE_SINK) ? fs.readFileSync(process.env.HENCE_SINK, 'utf8').split('\n') : [])

/** A tool whose name the policy knows: its own body is never run. */
const post = tool(() => { throw new Error('it is the sidecar that posts') },
  { name: 'board.post', description: 'Posts a line.', schema: z.object({ line: z.string() }) })

const asked = (calls) => ({ messages: [new AIMessage({ id: crypto.randomUUID(), content: '', tool_calls: calls })] })

/** A node whose handlers finish in another order than they were asked in: the delays are drawn from a seed. */
function delays(seed) {
  let x = seed + 1
  return () => (x = (x * 48271) % 2147483647) % 12
}

test('effects of parallel calls leave in the order in which the model asked for them', async () => {
  const node = new HenceToolNode([post])
  let ordered = 0
  const bare = []
  let bareOrdered = 0
  for (let n = 0; n < turns; n++) {
    const at = crypto.randomUUID()
    const lines = Array.from({ length: width }, (_, i) => `${at} ${i}`)
    const calls = (name) => lines.map((line, i) => ({ id: `c${n}-${i}`, name, args: { line }, type: 'tool_call' }))
    const out = await node.invoke(asked(calls('board.post')))
    assert.deepEqual(out.messages.map((m) => m.tool_call_id), calls('x').map((c) => c.id))
    for (let i = 0; i < 500 && sink().filter((l) => l.includes(at)).length < width; i++) await new Promise((done) => setTimeout(done, 10))
    const arrived = sink().filter((line) => line.includes(at)).map((line) => Number(line.split(' ').at(-1)))
    if (JSON.stringify(arrived) === JSON.stringify(lines.map((_, i) => i))) ordered++
    const wait = delays(n)
    const slow = tool(async ({ line }) => {
      await new Promise((done) => setTimeout(done, wait()))
      bare.push(line)
    }, { name: 'slow', description: 'Posts a line, some time later.', schema: z.object({ line: z.string() }) })
    bare.length = 0
    await new ToolNode([slow]).invoke(asked(calls('slow')))
    if (JSON.stringify(bare) === JSON.stringify(lines)) bareOrdered++
  }
  console.log(`ToolNode, turns x ${width} in issuance order: ${ordered} of ${turns}; bare ${bareOrdered} of ${turns}`)
  assert.equal(ordered, turns)
  assert.ok(bareOrdered < turns)
})

test('local tools that act keep their order, and one that nobody has declared is refused', async () => {
  const done = []
  const slow = (name) => tool(async ({ line }) => {
    await new Promise((end) => setTimeout(end, line === '0' ? 20 : 0))
    done.push(line)
    return line
  }, { name, description: 'Acts.', schema: z.object({ line: z.string() }) })
  const calls = ['0', '1', '2'].map((line) => ({ id: 'l' + line, name: 'slow', args: { line }, type: 'tool_call' }))
  await new HenceToolNode([acts(slow('slow'))]).invoke(asked(calls))
  assert.deepEqual(done, ['0', '1', '2'])
  await new HenceToolNode([reads(slow('slow'))]).invoke(asked(calls))
  await assert.rejects(new HenceToolNode([slow('slow')]).invoke(asked(calls)), UnknownLocalTool)
})

test('a checkpoint that is run again has the same transaction, and nothing happens twice', async () => {
  const at = crypto.randomUUID()
  const message = asked([{ id: 'once', name: 'board.post', args: { line: at }, type: 'tool_call' }]).messages[0]
  const graph = new StateGraph(MessagesAnnotation).addNode('model', () => ({ messages: [message] }))
    .addNode('tools', new HenceToolNode([post])).addEdge('__start__', 'model').addEdge('model', 'tools')
    .compile({ checkpointer: new MemorySaver() })
  const config = { configurable: { thread_id: crypto.randomUUID() } }
  await graph.invoke({ messages: [{ role: 'user', content: 'post it' }] }, config)
  let before
  for await (const state of graph.getStateHistory(config)) if (state.next.includes('tools')) before = state
  await graph.invoke(null, before.config)
  for (let i = 0; i < 300 && !sink().some((l) => l.includes(at)); i++) await new Promise((end) => setTimeout(end, 10))
  await new Client().transaction((tx) => tx.call('board.post', { line: 'after ' + at }))
  for (let i = 0; i < 300 && !sink().some((l) => l.includes('after ' + at)); i++) await new Promise((end) => setTimeout(end, 10))
  assert.equal(sink().filter((l) => l.includes(at)).length, 2) // once, and the one after it
})

test('four writers that append in lockstep lose nothing', async () => {
  const lost = []
  const bareLost = []
  for (let round = 0; round < rounds; round++) {
    const namespace = ['lockstep', crypto.randomUUID()]
    const stores = Array.from({ length: 4 }, () => new HenceStore())
    const bare = { items: [] }
    let bareSteps = 0
    for (let step = 0; step < 6; step++) { // all get before any puts
      const seen = bare.items
      await Promise.all(stores.map((store, writer) => store.update(namespace, 'list', (value) => ({ items: [...(value?.items ?? []), `${writer}.${step}`] }))))
      for (let writer = 0; writer < 4; writer++) bare.items = [...seen, `${writer}.${step}`]
      bareSteps++
    }
    lost.push(24 - (await new HenceStore().get(namespace, 'list')).value.items.length)
    bareLost.push(4 * bareSteps - bare.items.length)
  }
  console.log(`lost appends of 24, ${rounds} rounds: ${lost}; bare ${bareLost}`)
  assert.ok(lost.every((n) => n === 0))
  assert.ok(bareLost.every((n) => n === 18))
})

test('work whose put may count is not done a second time', async () => {
  const server = createServer((request, response) => {
    if (request.url.split('?')[0].endsWith('/commit')) return request.socket.destroy()
    let text = ''
    request.on('data', (part) => { text += part }).on('end', () => response.end(
      JSON.stringify({ items: JSON.parse(text).scopes.map((scope) => ({ scope, exists: false, version: 0 })) })))
  }).listen(0)
  const client = new Client({ url: `http://127.0.0.1:${server.address().port}`, token: 't', patienceMs: 0 })
  let done = 0
  await assert.rejects(new HenceStore({ client }).update(['ns'], 'n', () => ({ n: ++done })), Unavailable)
  server.close()
  server.closeAllConnections()
  assert.equal(done, 1)
})

test('a put on what was overwritten is refused, and the store does what stores do', async () => {
  const namespace = ['memories', crypto.randomUUID()]
  const [ann, bob] = [new HenceStore(), new HenceStore()]
  await ann.put(namespace, 'a', { n: 1 })
  assert.deepEqual((await bob.get(namespace, 'a')).value, { n: 1 })
  await ann.put(namespace, 'a', { n: 2 })
  await assert.rejects(bob.put(namespace, 'a', { n: 3 }), StaleRead)
  await ann.put(namespace, 'b', { n: 2, kind: 'x' })
  assert.equal(await bob.get(namespace, 'none'), null)
  assert.deepEqual((await bob.search(namespace, { filter: { kind: 'x' } })).map((i) => i.key), ['b'])
  assert.ok((await ann.listNamespaces({ prefix: ['memories'] })).some((ns) => ns[1] === namespace[1]))
  await ann.delete(namespace, 'a')
  assert.equal(await ann.get(namespace, 'a'), null)
})

test('a null over what another one wrote meanwhile is refused', async () => { // deer-flow's case
  const [planner, nuller] = ['planner-', 'nuller-'].map((name) => new Client({ session: name + crypto.randomUUID() }))
  let ends = 0
  let named = 0
  for (let n = 0; n < nulls; n++) {
    const at = 'todos/' + crypto.randomUUID()
    const mine = await nuller.begin()
    await mine.get(at)
    const other = await planner.transaction(async (tx) => {
      await tx.set(at, ['buy', 'cook'])
      return tx
    })
    try {
      await mine.set(at, null)
      await mine.commit()
    } catch (e) {
      if (!(e instanceof StaleRead)) throw e
      if (e.decision.tx === mine.id && e.decision.moved_by === other.id) named++
    }
    const kept = await planner.transaction((tx) => tx.get(at))
    if (JSON.stringify(kept) === JSON.stringify(['buy', 'cook'])) ends++
  }
  console.log(`null overwrite: ${ends} of ${nulls} end with the non-null value, ${named} nulls named in a decision`)
  assert.deepEqual([ends, named], [nulls, nulls])
})

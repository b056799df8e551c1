import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test } from 'node:test'
import { Agent, Runner, Usage, setTracingDisabled, tool } from '@openai/agents'
import { z } from 'zod'
import { Client } from 'hence-client'
import { Door, UnknownLocalTool, acts, reads } from 'hence-client/openai-agents'

setTracingDisabled(true)
const turns = Number(process.env.HENCE_JS_TURNS ?? 10)
const width = 5
const sink = () => (fs.existsSync(process.env.HENCE_SINK) ? fs.readFileSync(process.env.HENCE_SINK, 'utf8').split('\n') : [])

/** Answers with the turns that it was given, whole or streamed, and keeps what it was asked. */
class Scripted {
  shown = []

  constructor(...answers) {
    this.answers = answers
  }

  #next(request) {
    this.shown.push(request.input)
    const calls = this.answers.shift()
    const output = calls
      ? calls.map(([callId, name, args]) => ({ type: 'function_call', callId, name, status: 'completed', arguments: JSON.stringify(args) }))
      : [{ type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'done' }] }]
    return { output, usage: new Usage() }
  }

  async getResponse(request) {
    return this.#next(request)
  }

  async *getStreamedResponse(request) {
    const { output } = this.#next(request)
    yield { type: 'response_done', response: { id: 'r', output, usage: { inputTokens: 0, outputTokens: 0, totalTokens: 0 } } }
  }
}

const line = z.object({ line: z.string() })

/** A tool that the policy knows, as board.post: APIs of models take no ".". Its own body is never run. */
const post = tool({ name: 'board_post', description: 'Posts a line.', parameters: line, execute: () => { throw new Error('the sidecar posts') } })

const local = (name, execute) => tool({ name, description: 'Is local.', parameters: line, execute })

async function run(tools, answers, { stream = false } = {}) {
  const door = new Door()
  const model = new Scripted(...answers)
  const agent = new Agent({ name: 'shop', model: door.model(model), tools: door.tools(tools) })
  const result = await new Runner().run(agent, 'go', { stream })
  if (stream) await result.completed
  assert.equal(result.finalOutput, 'done')
  const outputs = (model.shown.at(-1) ?? []).filter((i) => i.type === 'function_call_result').map((i) => i.output?.text ?? i.output)
  return { door, model, outputs }
}

const made = async (door) => (await door.client.ask('GET', `/v1/tx/${door.decision.tx}/effects`)).effects.map((e) => e.call)

for (const stream of [false, true]) {
  test(`a turn is one transaction, ${stream ? 'streamed' : 'whole'}`, async () => {
    const mark = crypto.randomUUID()
    const calls = [0, 1, 2, 3].map((n) => [mark + n, 'board_post', { line: mark + n }])
    const look = reads(local('look', ({ line }) => 'seen ' + line))
    const { door, outputs } = await run([post, look], [[...calls, ['q', 'look', { line: 'a' }]]], { stream })
    assert.equal(door.decision.state, 'committed')
    assert.deepEqual(await made(door), calls.map(([id]) => id))
    assert.equal(outputs.at(-1), 'seen a')
  })
}

test('effects of parallel calls leave in the order in which the model asked for them', async () => {
  let ordered = 0
  let bareOrdered = 0
  for (let n = 0; n < turns; n++) {
    const at = crypto.randomUUID()
    const lines = Array.from({ length: width }, (_, i) => `${at} ${i}`)
    const calls = (name) => [lines.map((line, i) => [`${at}-${i}`, name, { line }])]
    const { door } = await run([post], calls('board_post'))
    for (let i = 0; i < 500 && sink().filter((l) => l.includes(at)).length < width; i++) await new Promise((done) => setTimeout(done, 10))
    const arrived = sink().filter((l) => l.includes(at)).map((l) => Number(l.split(' ').at(-1)))
    if (JSON.stringify(arrived) === JSON.stringify(lines.map((_, i) => i))) ordered++
    assert.equal(door.decision.state, 'committed')
    const bare = []
    let x = n + 1
    const slow = local('slow', async ({ line }) => {
      await new Promise((done) => setTimeout(done, (x = (x * 48271) % 2147483647) % 12))
      bare.push(line)
      return 'posted'
    })
    await new Runner().run(new Agent({ name: 'bare', model: new Scripted(...calls('slow')), tools: [slow] }), 'go')
    if (JSON.stringify(bare) === JSON.stringify(lines)) bareOrdered++
  }
  console.log(`OpenAI Agents, turns x ${width} in issuance order: ${ordered} of ${turns}; bare ${bareOrdered} of ${turns}`)
  assert.equal(ordered, turns)
  assert.ok(bareOrdered < turns)
})

test('local tools that act keep their order, and one that nobody has declared is refused', async () => {
  const done = []
  const slow = () => local('slow', async ({ line }) => {
    await new Promise((end) => setTimeout(end, line === '0' ? 20 : 0))
    done.push(line)
    return line
  })
  const calls = ['0', '1', '2'].map((line) => ['l' + line, 'slow', { line }])
  await run([acts(slow())], [calls])
  assert.deepEqual(done, ['0', '1', '2'])
  const causes = (e) => (e ? [e, ...causes(e.error ?? e.cause)] : [])
  await assert.rejects(run([slow()], [calls]), (e) => causes(e).some((one) => one instanceof UnknownLocalTool))
})

test('a refused turn is told to the model, and nothing of it has happened', async () => {
  const mark = crypto.randomUUID()
  const at = 'agents/' + mark
  const client = new Client()
  await client.transaction((tx) => tx.set(at, 1))
  const door = new Door()
  // What the conversation has read is the ground of its next turn; another one writes over it.
  await door.client.ask('POST', `/v1/workspaces/${door.client.workspace}/reads`, { body: { scopes: ['shard:/' + at] } })
  await client.transaction((tx) => tx.set(at, 2))
  const model = new Scripted([[mark, 'board_post', { line: mark }]])
  const agent = new Agent({ name: 'shop', model: door.model(model), tools: door.tools([post]) })
  await new Runner().run(agent, 'go')
  const said = JSON.stringify(model.shown.at(-1))
  assert.match(said, /Refused \(stale_read\)/)
  assert.ok(said.includes(at))
  assert.ok(!sink().some((l) => l.includes(mark)))
})

test('without a door before the model each call is a transaction of its own', async () => {
  const mark = crypto.randomUUID()
  const door = new Door()
  const model = new Scripted([[mark + 'a', 'board_post', { line: mark }], [mark + 'b', 'board_post', { line: mark }]])
  await new Runner().run(new Agent({ name: 'shop', model, tools: door.tools([post]) }), 'go')
  assert.equal((await made(door)).length, 1)
})

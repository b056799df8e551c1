// A model that asks for two posts at once, and then says that it is done.
import { Usage, setTracingDisabled } from '@openai/agents'

setTracingDisabled(true)
const call = (n) => ({ type: 'function_call', callId: String(n), name: 'board_post', arguments: JSON.stringify({ line: `${n}. mug of an agent` }) })
const done = { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'done' }] }
const answers = [[call(1), call(2)], [done]]

export const model = { getResponse: async () => ({ usage: new Usage(), output: answers.shift() }) }

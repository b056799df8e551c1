import { tool } from '@langchain/core/tools'
import { MessagesAnnotation, StateGraph } from '@langchain/langgraph'
import { toolsCondition } from '@langchain/langgraph/prebuilt'
import { HenceToolNode } from 'hence-client/langgraph'
import { z } from 'zod'
import { append } from './board.mjs'
import { model } from './scripted.mjs'

const post = tool(({ line }) => append(line), {
  name: 'board_post',
  description: 'Post a line on the board.',
  schema: z.object({ line: z.string() }),
})
const tools = [post]

const app = new StateGraph(MessagesAnnotation)
  .addNode('agent', async (state) => ({ messages: [await model.invoke(state.messages)] }))
  .addNode('tools', new HenceToolNode(tools))
  .addEdge('__start__', 'agent')
  .addConditionalEdges('agent', toolsCondition)
  .addEdge('tools', 'agent')
  .compile()

const out = await app.invoke({ messages: [{ role: 'user', content: 'Sell two mugs.' }] })
console.log(out.messages.at(-1).content)

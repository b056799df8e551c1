import { Agent, run, tool } from '@openai/agents'
import { z } from 'zod'
import { append } from './board.mjs'
import { model } from './scripted.mjs'

const post = tool({
  name: 'board_post',
  description: 'Post a line on the board.',
  parameters: z.object({ line: z.string() }),
  execute: async ({ line }) => append(line),
})

const agent = new Agent({
  name: 'Shop',
  instructions: 'You sell mugs.',
  tools: [post],
  model: model,
})

const result = await run(agent, 'Sell two mugs.')
console.log(result.finalOutput)

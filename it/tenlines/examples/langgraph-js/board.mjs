// What the example acts on: a file, a line a post.
import fs from 'node:fs'

export function append(line) {
  fs.appendFileSync(process.env.BOARD, line + '\n')
  return 'posted'
}

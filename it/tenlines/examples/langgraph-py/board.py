"""What the example acts on: a file, a line a post."""

import os


def append(line):
    with open(os.environ["BOARD"], "a") as board:
        board.write(line + "\n")

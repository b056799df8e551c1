import asyncio

from agents import Agent, Runner, function_tool
from board import append
from hence.openai_agents import Door
from scripted import model


@function_tool
def board_post(line: str) -> str:
    """Post a line on the board."""
    append(line)
    return "posted"


door = Door()
agent = Agent(name="Shop", instructions="You sell mugs.", tools=door.tools([board_post]), model=model)


async def main():
    result = await Runner.run(agent, input="Sell two mugs.", hooks=door)
    print(result.final_output)


asyncio.run(main())

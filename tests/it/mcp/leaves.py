"""A client with a session over HTTP that takes all sandboxes, runs a program in one, and leaves.

    leaves.py polite|abrupt URL TOKEN

Waits until the sandboxes of clients before it are gone.
"""

import asyncio
import os
import sys

import httpx2 as httpx
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

HOW, URL, TOKEN = sys.argv[1:]
SANDBOXES_MAX = 2


async def main():
    http = httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"})
    async with Client(streamable_http_client(URL, http_client=http), mode="legacy") as client:
        made = 0
        while made < SANDBOXES_MAX:
            result = await client.call_tool("sandbox_create", {"id": f"box-{made}"})
            if result.is_error:
                assert "limit of this server" in result.content[0].text, result
                await asyncio.sleep(0.05)
            else:
                made += 1
        endless = client.call_tool("sandbox_exec", {"sandbox": "box-0", "command": "while :; do :; done"})
        running = asyncio.create_task(endless)
        busy = False
        while not busy:
            listed = await client.call_tool("sandbox_list", {})
            busy = any(box["busy"] for box in listed.structured_content["sandboxes"])
        if HOW == "abrupt":
            os._exit(0)
        running.cancel()


asyncio.run(main())

"""A TCP proxy that makes a server be far away: python3 delay.py PORT OF_SERVER MS

Listens on PORT of 127.0.0.1, and hands everything on to OF_SERVER after half of MS milliseconds, so that a request and its
answer take MS more.
"""

import asyncio
import sys

port, of_server, half_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 2000


async def hand_on(reader, writer):
    loop = asyncio.get_running_loop()
    queue = asyncio.Queue()

    async def send():
        while True:
            at, data = await queue.get()
            await asyncio.sleep(max(0.0, at - loop.time()))
            if not data:
                writer.close()
                return
            writer.write(data)

    sending = asyncio.create_task(send())
    try:
        while data := await reader.read(1 << 16):
            queue.put_nowait((loop.time() + half_s, data))
    except ConnectionError:
        pass
    queue.put_nowait((loop.time() + half_s, b""))
    await sending


async def connected(reader, writer):
    try:
        of_reader, to_server = await asyncio.open_connection("127.0.0.1", of_server)
    except OSError:
        writer.close()
        return
    await asyncio.gather(hand_on(reader, to_server), hand_on(of_reader, writer), return_exceptions=True)


async def main():
    async with await asyncio.start_server(connected, "127.0.0.1", port) as server:
        await server.serve_forever()


asyncio.run(main())

#!/usr/bin/env python3
"""A worker for BuildGrid: takes leases of the Bots service, and has each executed by a program with the command line of
BuildBox's runners.

    PYTHONPATH=SITE_DIR bot.py --remote=http://127.0.0.1:PORT [--instance=NAME] [--jobs=N] [--property NAME=VALUE]... \
        --work=DIR -- belljar runner [OPTION]...

Ends on SIGTERM or SIGINT, and when the pipe that is its standard input is closed; what it runs is killed then. Prints `ready` when
its session is there, and a line for each lease on standard error.
"""

import argparse
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import uuid

import grpc

from buildgrid._protos.build.bazel.remote.execution.v2 import remote_execution_pb2 as execution
from buildgrid._protos.build.bazel.remote.execution.v2 import remote_execution_pb2_grpc as execution_grpc
from buildgrid._protos.google.devtools.remoteworkers.v1test2 import bots_pb2 as bots
from buildgrid._protos.google.devtools.remoteworkers.v1test2 import bots_pb2_grpc as bots_grpc
from buildgrid._protos.google.rpc import code_pb2, status_pb2

# BuildGrid answers a waiting bot after 0.8 of this.
UPDATE_SECONDS = 10


class Job:
    """A runner that works on a lease."""

    def __init__(self, bot, lease):
        self.lease_id = lease.id
        self.bot = bot
        self.is_unwanted = False
        # What the lease ends with; None as long as the runner runs.
        self.outcome = None
        self.process = None
        self.folder = tempfile.mkdtemp(prefix="lease-", dir=bot.options.work)
        payload = lease.payload
        self.thread = threading.Thread(target=self.run, args=(payload,), daemon=True)
        self.thread.start()

    def run(self, payload):
        result = status = None
        try:
            result, status = self.execute(payload)
        except (OSError, ValueError, grpc.RpcError) as error:
            status = status_pb2.Status(code=code_pb2.INTERNAL, message=f"the bot: {error}")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.bot.log(f"lease {self.lease_id}: code {status.code} {status.message}".rstrip())
        self.outcome = result, status
        self.bot.wake()

    def execute(self, payload):
        action_file = os.path.join(self.folder, "action")
        result_file = os.path.join(self.folder, "result")
        with open(action_file, "wb") as file:
            file.write(self.action_of(payload))
        options = self.bot.options
        command = [*options.runner, f"--remote={options.remote}", f"--instance={options.instance}",
                   f"--action={action_file}", f"--action-result={result_file}"]
        with open(os.path.join(options.work, "runner.log"), "ab") as log:
            with self.bot.lock:
                if self.is_unwanted:
                    return None, status_pb2.Status(code=code_pb2.CANCELLED)
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                start_new_session=True)
            exit_code = self.process.wait()
        if exit_code == 0:
            result = execution.ActionResult()
            with open(result_file, "rb") as file:
                result.ParseFromString(file.read())
            return result, status_pb2.Status(code=code_pb2.OK)
        status = status_pb2.Status()
        try:
            with open(f"{result_file}.error-status", "rb") as file:
                status.ParseFromString(file.read())
        except FileNotFoundError:
            pass
        if status.code == code_pb2.OK:
            status.code, status.message = code_pb2.INTERNAL, f"the runner ended with {exit_code} and told no reason"
        return None, status

    def action_of(self, payload):
        """The encoded action: BuildGrid sends it, or its digest."""
        if payload.Is(execution.Action.DESCRIPTOR):
            return payload.value
        digest = execution.Digest()
        if not payload.Unpack(digest):
            raise ValueError(f"a lease of {payload.type_url}")
        request = execution.BatchReadBlobsRequest(instance_name=self.bot.options.instance, digests=[digest])
        contents = execution_grpc.ContentAddressableStorageStub(self.bot.channel)
        answer = contents.BatchReadBlobs(request, timeout=60).responses[0]
        if answer.status.code != code_pb2.OK:
            raise ValueError(f"the action {digest.hash}: {answer.status.message}")
        return answer.data

    def stop(self):
        with self.bot.lock:
            self.is_unwanted = True
            process = self.process
        if process is not None and process.poll() is None:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Bot:
    def __init__(self, options):
        self.options = options
        self.lock = threading.Lock()
        self.jobs = {}
        self.call = None
        # Something ended, or the bot is to end: a request that waits is not to wait on.
        self.has_news = threading.Event()
        self.is_ending = False
        target = options.remote.split("://", 1)[-1]
        self.channel = grpc.insecure_channel(target, options=[
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            # Others in this process have other channels, and none of them is to be shared.
            ("grpc.use_local_subchannel_pool", 1),
        ])
        self.service = bots_grpc.BotsStub(self.channel)

    def log(self, message):
        print(f"bot: {message}", file=sys.stderr, flush=True)

    def wake(self):
        with self.lock:
            self.has_news.set()
            call = self.call
        if call is not None:
            call.cancel()

    def end(self):
        self.is_ending = True
        self.wake()

    def ask(self, method, request):
        """The answer, or None if there was news before one."""
        with self.lock:
            # News that came before are in the request, or are looked at again at once.
            if self.has_news.is_set():
                return None
            self.call = call = method.future(request, timeout=UPDATE_SECONDS)
        try:
            return call.result()
        except grpc.FutureCancelledError:
            return None
        finally:
            with self.lock:
                self.call = None

    def new_session(self):
        session = bots.BotSession(bot_id=self.options.name, status=bots.OK)
        device = session.worker.devices.add(handle="primary")
        for entry in self.options.property:
            key, _, value = entry.partition("=")
            device.properties.add(key=key, value=value)
        session.worker.configs.add(key="capacity", value=str(self.options.jobs))
        return session

    def serve(self):
        session = self.new_session()
        was_ready = False
        while not self.is_ending:
            self.has_news.clear()
            done = self.tell(session)
            try:
                if session.name:
                    request = bots.UpdateBotSessionRequest(name=session.name, bot_session=session)
                    answer = self.ask(self.service.UpdateBotSession, request)
                else:
                    if not was_ready:
                        # BuildGrid answers this only with a lease, or after a while; the bot is known before.
                        grpc.channel_ready_future(self.channel).result(timeout=60)
                        print("ready", flush=True)
                        was_ready = True
                    request = bots.CreateBotSessionRequest(parent=self.options.instance, bot_session=session)
                    answer = self.ask(self.service.CreateBotSession, request)
            except grpc.FutureTimeoutError:
                sys.exit("bot: the server does not answer")
            except grpc.RpcError as error:
                self.failed(session, error)
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    session = self.new_session()
                continue
            if answer is None:
                continue
            session = answer
            for lease_id in done:
                self.jobs.pop(lease_id, None)
            self.take(session)
        for job in list(self.jobs.values()):
            job.stop()
        for job in list(self.jobs.values()):
            job.thread.join(5)

    def failed(self, session, error):
        self.log(f"{error.code().name}: {error.details()}")
        if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            # The server gives its leases to others.
            for job in self.jobs.values():
                job.stop()
            self.jobs.clear()
        self.has_news.wait(0.3)

    def tell(self, session):
        """Puts what the jobs have come to into the session; returns the leases that have ended."""
        session.status = bots.OK
        del session.leases[:]
        done = []
        for lease_id, job in self.jobs.items():
            if job.outcome is None:
                session.leases.add(id=lease_id, state=bots.ACTIVE)
                continue
            result, status = job.outcome
            lease = session.leases.add(id=lease_id, state=bots.COMPLETED)
            lease.status.CopyFrom(status)
            if result is not None:
                lease.result.Pack(result)
            done.append(lease_id)
        return done

    def take(self, session):
        """Begins what is new, and ends what is not wanted any more."""
        wanted = set()
        for lease in session.leases:
            if lease.state not in (bots.PENDING, bots.ACTIVE):
                continue
            wanted.add(lease.id)
            if lease.id not in self.jobs:
                self.log(f"lease {lease.id}: begins")
                self.jobs[lease.id] = Job(self, lease)
        for lease_id in [lease_id for lease_id in self.jobs if lease_id not in wanted]:
            job = self.jobs.pop(lease_id)
            if job.outcome is None:
                self.log(f"lease {lease_id}: is not wanted any more")
                job.stop()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--remote", required=True)
    arguments.add_argument("--instance", default="")
    arguments.add_argument("--jobs", type=int, default=1)
    arguments.add_argument("--name", default=f"bot-{uuid.uuid4()}")
    arguments.add_argument("--property", action="append", default=[])
    arguments.add_argument("--work", required=True)
    arguments.add_argument("runner", nargs="+")
    options = arguments.parse_args()
    os.makedirs(options.work, exist_ok=True)
    bot = Bot(options)
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not in the handler itself, which may interrupt one who has the lock.
        signal.signal(number, lambda *_: threading.Thread(target=bot.end).start())

    mode = os.fstat(0).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        def watch():
            while os.read(0, 4096):
                pass
            bot.end()
        threading.Thread(target=watch, daemon=True).start()
    bot.serve()


main()

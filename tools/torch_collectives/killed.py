"""One rank kills itself in the middle of a training; the others must end within ten seconds, each with the code that is
promised (docs/exit_codes.md). Started without torchrun, whose agent would end them itself:
killed.py issuing|waiting|replaying|differing|stopped [RANKS].

issuing: the others go on issuing steps, and end with 14, as all below do whose partner is gone. waiting: they wait for
the GPU, in the step that the last rank does not come to. replaying: forward and backward are one CUDA graph. differing:
the last rank lives, but gathers into another place than the others; a rank must say so, and no byte may arrive, for
which it ends with 40. stopped: forward passes alone, in which the last rank stops; one of the others must end with 15
after the process group's timeout."""

import datetime
import os
import signal
import subprocess
import sys
import time
import traceback

STEP = 5  # in which the last rank dies
LIMIT_S = 10
TIMEOUT_S = 20  # of the process group, where a rank stops
KILLED, MISMATCH, LOST, HUNG = -signal.SIGKILL, 4, 14, 15
REFUSED = 40  # of a rank that was told of a mismatch, and whose memory is as it left it: no code of anything else


def promised(how, codes):
    """Whether the ranks ended, by rank, with the codes that the case promises."""
    *others, last = codes
    if how == "differing":
        return REFUSED in codes and set(codes) <= {REFUSED, LOST}
    if how == "stopped":
        return last == KILLED and HUNG in others and set(others) <= {HUNG, LOST}
    return last == KILLED and set(others) == {LOST}


def rank(how, number, ranks):
    import foreshard.collectives
    import llama
    import torch
    import torch.distributed as dist
    from foreshard.collectives.library import CollectiveError

    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    timeout = datetime.timedelta(seconds=TIMEOUT_S) if how == "stopped" else None
    dist.init_process_group("nccl", device_id=device, timeout=timeout)
    model, _ = llama.sharded("tiny", device, reshard=True, compiled=False)
    served = foreshard.collectives.enable(model)
    print(served, flush=True)
    assert not any(one.reason for one in served), served
    batches = llama.Batches(model.size, 2, 512, device, number)
    tokens = batches.next()
    side = torch.cuda.Stream()

    def step():
        with torch.set_grad_enabled(how != "stopped"):
            loss = batches.loss(model, tokens)
        if how != "stopped":
            loss.backward()

    if how == "replaying":
        with torch.cuda.stream(side):
            step()
            step()
        torch.cuda.synchronize()
        dist.barrier()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
            step()
        step = graph.replay
    if how == "differing":
        step = differing(number == ranks - 1)
    try:
        train(how, number == ranks - 1, step)
    except CollectiveError as error:  # raised by a call; where the rank waits on the GPU the library ends it likewise
        traceback.print_exc()
        sys.exit(error.code)


def train(how, last, step):
    import torch

    for turn in range(1_000_000):
        if last and turn == STEP and how != "differing":
            torch.cuda.synchronize()
            time.sleep(1)  # the others are in their step by now
            os.kill(os.getpid(), signal.SIGSTOP if how == "stopped" else signal.SIGKILL)
        step()
        if how != "issuing":
            torch.cuda.synchronize()


def differing(last):
    """A step that gathers into one of two places, the last rank into the other from step STEP on."""
    import torch
    from foreshard.collectives import groups
    from foreshard.collectives.library import CollectiveError

    (group,) = groups.connected()
    both = group.empty((2, group.ranks * 1000), torch.float32)
    side = torch.cuda.Stream()
    turns = iter(range(1_000_000))

    def step():
        other = last and next(turns) >= STEP
        output = both[1 if other else 0]
        with torch.cuda.stream(side):
            both.fill_(-1)
            mine = output[group.rank * 1000 : (group.rank + 1) * 1000]
            mine.fill_(group.rank)
            before = both.clone()
            try:
                group.all_gather(output, mine, side.cuda_stream)
            except CollectiveError as error:
                if error.code != MISMATCH:
                    raise
                time.sleep(1)  # for what others would write
                written = (both != before).sum().item()
                print(f"{error}: {written} elements of both places are written", flush=True)
                sys.exit(REFUSED if written == 0 else 1)

    return step


def main(how, ranks):
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29571", "WORLD_SIZE": str(ranks)}
    started = [
        subprocess.Popen([sys.executable, __file__, how, str(ranks)],
                         env={**os.environ, **environment, "RANK": str(number)})
        for number in range(ranks)
    ]  # fmt: skip
    while all(process.poll() is None for process in started):
        time.sleep(0.05)
    died = time.monotonic()
    wrong = False
    if how == "stopped":
        started[-1].kill()
    for number, process in enumerate(started):
        try:
            process.wait(2 * LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            wrong = True
        took = time.monotonic() - died
        print(f"{how}: rank {number} ended {took:.1f} s after the first, code {process.returncode}", flush=True)
        wrong = wrong or took > LIMIT_S
    if not promised(how, [process.returncode for process in started]):
        print(f"{how}: not the codes that are promised", flush=True)
        wrong = True
    sys.exit(wrong)


if __name__ == "__main__":
    arguments = (sys.argv[1] if len(sys.argv) > 1 else "waiting", int(sys.argv[2]) if len(sys.argv) > 2 else 2)
    if "RANK" in os.environ:
        rank(arguments[0], int(os.environ["RANK"]), arguments[1])
    else:
        main(*arguments)

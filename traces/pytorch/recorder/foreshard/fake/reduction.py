"""What PyTorch's reduction kernel allocates beside its output (aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig):
core/models/reduction.cpp, in Python."""

from __future__ import annotations

_MAX_THREADS = 512
_INPUT_VECTOR = 4
_MIN_VALUES = 16
_MAX_VALUES = 256
_WARP = 32
_THREADS_PER_SM = 2048
_VECTORIZE_FROM = 128
_SEMAPHORE = 4
_ACCUMULATOR = 4  # sizeof(float), of float32 and of 16-bit types


def reduction_workspace(outputs: int, inputs: int, along_memory: bool, sm_count: int) -> tuple[int, int]:
    """Bytes of partial results and of semaphores; zeros where thread blocks need not meet. `inputs` of each output;
    `along_memory`: neighbours in memory go into one output."""
    vector = 1 if along_memory else next(size for size in (4, 2, 1) if outputs % size == 0)
    dim0, dim1 = (inputs, outputs) if along_memory else (outputs // vector, inputs)
    if along_memory and dim0 >= _VECTORIZE_FROM:
        dim0 //= _INPUT_VECTOR
    if dim0 == 0 or dim1 == 0:
        return 0, 0
    max_threads = _MAX_THREADS // vector
    power0, power1 = min(_floor_power(dim0), max_threads), min(_floor_power(dim1), max_threads)
    width = min(power0, _WARP)
    height = min(power1, max_threads // width)
    width = min(power0, max_threads // height)
    step_input, step_output = (width, 1) if along_memory else (1, width)
    values = -(-inputs // step_input)
    over_warps = values >= height * _MIN_VALUES or values >= _MAX_VALUES
    if over_warps:
        step_input *= height
    else:
        step_output *= height
    values = -(-inputs // step_input)
    grid = -(-(outputs // vector) // step_output)
    target = sm_count * (_THREADS_PER_SM // (width * height))
    if not over_warps or values < _MAX_VALUES or grid > target:
        return 0, 0
    blocks = max(min(-(-target // grid), -(-values // _MIN_VALUES)), -(-values // _MAX_VALUES))
    if blocks <= 1:
        return 0, 0
    lanes = 1 if along_memory else width * vector
    return _ACCUMULATOR * outputs * blocks * lanes, _SEMAPHORE * grid


def _floor_power(value: int) -> int:
    return 1 << (value.bit_length() - 1)

"""A torch without tensors: enough for the recorder to run, with a journal of what it asked for, and faults on request.

`journal` has the names of calls in order; a name in `faults` raises when it is called.
"""

import importlib.machinery
import sys
import types

__version__ = "2.11.0+stub"

journal = []
faults = set()
live = []


def _call(name, result=None):
    journal.append(name)
    if name in faults:
        raise RuntimeError(f"{name} fails")
    return result


def reset():
    journal.clear()
    faults.clear()


class Tensor:
    def __init__(self, shape, dtype="torch.int64", requires_grad=True):
        self.shape, self.dtype, self.requires_grad = tuple(shape), dtype, requires_grad
        self.gradient_hooks = []

    def register_hook(self, hook):
        self.gradient_hooks.append(hook)

    def backward(self):
        for hook in self.gradient_hooks:
            hook(self)

    def numel(self):
        count = 1
        for size in self.shape:
            count *= size
        return count


def is_grad_enabled():
    return True


class _Event:
    def __init__(self, enable_timing=False):
        self.at = None

    def record(self):
        _call("event.record")
        self.at = len(journal)

    def elapsed_time(self, other):
        return float(other.at - self.at)


def _module(name, **members):
    made = types.ModuleType(name)
    made.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    made.__path__ = []
    made.__dict__.update(members)
    sys.modules[name] = made
    return made


class _Properties:
    multi_processor_count = 132
    total_memory = 1 << 30


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=1):
    _call("history.start" if enabled else "history.stop")


backends = types.SimpleNamespace(cuda=types.SimpleNamespace(is_built=lambda: True))
version = types.SimpleNamespace(cuda="13.0")
cuda = _module(
    "torch.cuda",
    is_available=lambda: True,
    synchronize=lambda device=None: _call("synchronize"),
    is_initialized=lambda: True,
    device_count=lambda: 2,
    current_device=lambda: 0,
    get_device_name=lambda device: "NVIDIA H200",
    get_device_properties=lambda device: _Properties,
    memory_stats=lambda: _call("memory_stats", {"allocated_bytes.all.peak": 5, "num_ooms": 0, "other": 1}),
    nccl=types.SimpleNamespace(version=lambda: (2, 28, 9)),
    Event=_Event,
    memory=types.SimpleNamespace(
        _record_memory_history=_record_memory_history,
        _snapshot=lambda: _call("snapshot", {"segments": [], "device_traces": [[]]}),
    ),
    _lazy_call=lambda function: function(),
)


class _Parameter(Tensor):
    pass


class Module:
    def __init__(self):
        self.children_by_name = {}
        self.parameters_by_name = {}
        self.hooks = []
        self.after = []

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, child in self.children_by_name.items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self):
        return (module for _, module in self.named_modules())

    def children(self):
        return iter(self.children_by_name.values())

    def named_parameters(self):
        for name, module in self.named_modules():
            for own, parameter in module.parameters_by_name.items():
                yield (f"{name}.{own}" if name else own), parameter

    def parameters(self):
        return (parameter for _, parameter in self.named_parameters())

    def register_forward_pre_hook(self, hook, prepend=False, with_kwargs=False):
        _call("hook")
        self.hooks.append(hook)
        return types.SimpleNamespace(remove=lambda: self.hooks.remove(hook))

    def register_forward_hook(self, hook):
        self.after.append(hook)
        return types.SimpleNamespace(remove=lambda: self.after.remove(hook))

    def __call__(self, *args, **kwargs):
        for hook in list(self.hooks):
            hook(self, args, kwargs)
        output = {"loss": [Tensor((1,))]}
        for hook in list(self.after):
            hook(self, args, output)
        return output["loss"][0]


nn = _module("torch.nn", Module=Module)


class FSDPModule:
    def _get_fsdp_state(self):
        return self.state


class ShardedModule(FSDPModule, Module):
    """What fully_shard makes of a module: a state with a group of its parameters."""

    def __init__(self, shapes, world_size=2):
        super().__init__()
        mesh = types.SimpleNamespace(shape=(world_size,), mesh_dim_names=None)
        info = types.SimpleNamespace(mesh=mesh, shard_mesh_size=world_size)
        self.parameters_by_name = {name: _Parameter(shape, "torch.float32") for name, shape in shapes.items()}
        params = [
            types.SimpleNamespace(sharded_param=parameter, _orig_size=parameter.shape)
            for parameter in self.parameters_by_name.values()
        ]
        group = types.SimpleNamespace(
            fsdp_params=params,
            mesh_info=info,
            post_forward_mesh_info=info,
            mp_policy=types.SimpleNamespace(param_dtype="torch.bfloat16", reduce_dtype="torch.float32"),
            offload_policy=None,
            reduce_grads=True,
        )
        self.state = types.SimpleNamespace(_fsdp_param_group=group, _modules=(self,))


distributed = _module("torch.distributed", is_available=lambda: True, is_initialized=lambda: False)
_module("torch.distributed.fsdp", FSDPModule=FSDPModule)


class _Profile:
    def __init__(self, activities, record_shapes):
        pass

    def start(self):
        _call("profiler.start")

    def stop(self):
        _call("profiler.stop")

    def export_chrome_trace(self, path):
        _call("trace")
        with open(path, "wb") as file:
            file.write(b"\x1f\x8b")


profiler = _module("torch.profiler", profile=_Profile, ProfilerActivity=types.SimpleNamespace(CPU=0, CUDA=1))

_step_hooks = []


class AdamW:
    def __init__(self):
        self.defaults = {"lr": 1e-3, "fused": True, "foreach": None, "amsgrad": False, "betas": (0.9, 0.99)}
        self.param_groups = [{"params": [1, 2]}]

    def step(self):
        for hook in list(_step_hooks):
            hook(self, (), {})


AdamW.__module__ = "torch.optim.adamw"


def _register_optimizer_step_post_hook(hook):
    _step_hooks.append(hook)
    return types.SimpleNamespace(remove=lambda: _step_hooks.remove(hook))


optim = _module("torch.optim", AdamW=AdamW)
optim.optimizer = _module("torch.optim.optimizer", register_optimizer_step_post_hook=_register_optimizer_step_post_hook)
__path__ = []

#include "core/run/stack_meaning.hpp"

#include "tests/catch.hpp"

namespace foreshard {
namespace {

const std::string kTorch = "/usr/lib/python3.12/site-packages/torch";

TEST_CASE("a user's frame is Python outside of PyTorch, its compiler's output and the standard library") {
  const auto user = [](const std::string& file) { return is_user_frame({file, 3, "f"}); };
  CHECK(user("train.py"));
  CHECK(user("/home/me/torch/train.py"));  // a folder of that name is not the package
  CHECK(user("/usr/lib/python3.12/site-packages/transformers/models/llama/modeling_llama.py"));
  CHECK(user("<stdin>"));
  CHECK(user("<ipython-input-3-0123>"));
  CHECK_FALSE(user(kTorch + "/nn/modules/linear.py"));
  CHECK_FALSE(user("/src/pytorch/torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py"));
  CHECK_FALSE(user("/src/pytorch/torch/_ops.py"));
  CHECK_FALSE(user("/tmp/torchinductor_me/ab/cab.py"));
  CHECK_FALSE(user("/usr/lib/python3.12/contextlib.py"));
  CHECK_FALSE(user("<frozen runpy>"));
  CHECK_FALSE(user("CUDACachingAllocator.cpp"));
  CHECK_FALSE(user("??"));
  CHECK_FALSE(user(""));
}

TEST_CASE("an operator is the name in the dispatcher's entry, without its overload") {
  CHECK(operator_of("at::_ops::mm::call(at::Tensor const&, at::Tensor const&)") == "aten::mm");
  CHECK(operator_of("at::_ops::add_Tensor::redispatch(c10::DispatchKeySet)") == "aten::add");
  CHECK(operator_of("at::_ops::empty_memory_format::call(…)") == "aten::empty");
  CHECK(operator_of("at::_ops::_foreach_add__Scalar::call(…)") == "aten::_foreach_add_");
  CHECK(operator_of("at::_ops::log_softmax_int::call(…)") == "aten::log_softmax");
  CHECK(operator_of("at::_ops::sum_dim_IntList::call(…)") == "aten::sum");
  CHECK(operator_of("at::native::mm(at::Tensor const&)").empty());
  CHECK(operator_of("at::_ops::").empty());
  CHECK(operator_of("at::_ops::mm").empty());
  CHECK(operator_of("forward").empty());
}

TEST_CASE("a stack's operator is the outermost, its user frame the innermost") {
  CallStacks stacks;
  StackId stack;
  for (const StackFrame& frame :  // outermost first
       {StackFrame{"train.py", 80, "main"}, StackFrame{"model.py", 12, "forward"},
        StackFrame{kTorch + "/nn/functional.py", 7, "linear"}, StackFrame{"??", 0, "at::_ops::linear::call(int)"},
        StackFrame{"", 0, "at::_ops::empty_memory_format::call(int)"},
        StackFrame{"CUDACachingAllocator.cpp", 0, "c10::cuda::malloc()"}})
    stack = stacks.stack(stacks.frame(frame.file, frame.line, frame.function), stack);
  const StackMeanings meanings(stacks);
  CHECK(meanings.op(stack) == "aten::linear");
  CHECK(frame_text(stacks.frames()[meanings.user_frame(stack).value]) == "model.py:12 forward");
  CHECK(stacks.frames_of(stack).size() == 6);
  CHECK(stacks.frames()[stacks.frames_of(stack)[0].value].function == "c10::cuda::malloc()");
  CHECK(meanings.op({}).empty());
  CHECK_FALSE(meanings.user_frame({}).valid());
  CHECK(stacks.frames_of({}).empty());
}

TEST_CASE("equal frames and stacks are kept once") {
  CallStacks stacks;
  const FrameId main = stacks.frame("a.py", 1, "main");
  CHECK(stacks.frame("a.py", 1, "main") == main);
  CHECK(stacks.frame("a.py", 2, "main") != main);
  CHECK(stacks.frame("a.py1", 0, "main") != stacks.frame("a.py", 10, "main"));
  const StackId outer = stacks.stack(main, {});
  CHECK(stacks.stack(main, {}) == outer);
  CHECK(stacks.stack(main, outer) != outer);
  CHECK(stacks.stacks().size() == 2);
}

TEST_CASE("what is not known of a frame is left out of its text") {
  CHECK(frame_text({"??", 0, "start"}) == "start");
  CHECK(frame_text({"/a/b/c.cpp", 0, "f()"}) == "c.cpp f()");
}

}  // namespace
}  // namespace foreshard

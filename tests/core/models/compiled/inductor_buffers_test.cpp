#include "core/models/inductor_buffers.hpp"

#include "tests/catch.hpp"

namespace foreshard::model {
namespace {

struct Written {
  std::vector<Bytes> allocated;
  std::vector<std::uint32_t> freed;
};

template <class Code>
Written written(const Code& code) {
  Labels labels;
  const HostCosts host;
  TapeOptions options;
  options.sm_count = 132;
  Tape tape(labels, host, options);
  InductorBuffers buffers(tape);
  buffers.run([&] { code(buffers, tape); });
  Written out;
  for (const Op& op : tape.finish().ops) {
    if (op.kind == OpKind::alloc) out.allocated.push_back(op.size.bytes);
    if (op.kind == OpKind::free) out.freed.push_back(op.tensor.value);
  }
  return out;
}

TEST_CASE("a buffer of the same dtype and size is taken over, the one freed last first") {
  const Written w = written([](InductorBuffers& buffers, Tape&) {
    Tensor a = buffers.make({4}, DType::float32);
    Tensor b = buffers.make({2, 2}, DType::float32);
    Tensor half = buffers.make({8}, DType::bfloat16);  // as many bytes of another dtype
    buffers.done(a);
    buffers.done(b);
    buffers.done(half);
    Tensor c = buffers.make({4, 1}, DType::float32);  // b's
    if (!buffers.planning()) CHECK(c->storage->id().value == 1);
    if (!buffers.planning()) CHECK(c->shape == Shape{4, 1});
    buffers.done(c);
  });
  CHECK(w.allocated == std::vector<Bytes>{16, 16, 16});
  CHECK(w.freed == std::vector<std::uint32_t>{0, 2, 1});  // those that nobody takes over at once
}

TEST_CASE("inputs go where they are last used, and are not taken over") {
  const Written w = written([](InductorBuffers& buffers, Tape& tape) {
    static Tensor input;
    if (buffers.planning()) input = tape.empty({4}, DType::float32);
    buffers.drop(input);
    Tensor a = buffers.make({4}, DType::float32);
    buffers.done(a);
  });
  CHECK(w.allocated == std::vector<Bytes>{16, 16});
  CHECK(w.freed == std::vector<std::uint32_t>{0, 1});
}

}  // namespace
}  // namespace foreshard::model

#include <cstring>
#include <exception>

#include "gpu/torch_collectives/foreshard_collectives.h"
#include "gpu/torch_collectives/process_end.hpp"
#include "gpu/torch_collectives/torch_group.hpp"

#define FORESHARD_EXPORT __attribute__((visibility("default")))

struct foreshard_collectives_group {
  std::unique_ptr<foreshard::gpu::TorchGroup> group;
};

namespace {

using foreshard::DType;
using foreshard::Error;
using foreshard::ErrorKind;
using foreshard::fail;
using foreshard::Result;
using foreshard::gpu::TorchGroup;

thread_local std::string last_error;
thread_local int last_number = 0;
thread_local foreshard_collectives_group* selected = nullptr;

int failed(const Error& error) {
  last_error = error.text();
  last_number = static_cast<int>(error.kind);
  return last_number;
}

/// No exception leaves the library.
template <class Call>
int guarded(Call call) noexcept {
  try {
    const Result<void> done = call();
    return done ? 0 : failed(done.error());
  } catch (const std::exception& error) {
    return failed({ErrorKind::mismatch, error.what(), {}, {}});
  }
}

Result<DType> dtype_of(int number) {
  const auto dtype = static_cast<DType>(number);
  if (number < 0 || number > 2)
    return fail(ErrorKind::usage, "a reduce-scatter sums float32, bfloat16 and float16 only");
  return dtype;
}
static_assert(static_cast<int>(DType::float32) == 0 && static_cast<int>(DType::bfloat16) == 1 &&
              static_cast<int>(DType::float16) == 2);

}  // namespace

extern "C" {

FORESHARD_EXPORT int foreshard_collectives_abi(void) {
  return FORESHARD_COLLECTIVES_ABI;
}

FORESHARD_EXPORT const char* foreshard_collectives_error(void) {
  return last_error.c_str();
}

FORESHARD_EXPORT int foreshard_collectives_error_number(void) {
  return last_number;
}

FORESHARD_EXPORT int foreshard_collectives_open(uint32_t rank, uint32_t ranks, int device, uint64_t timeout_ms,
                                                char* address, foreshard_collectives_group** group) {
  return guarded([&]() -> Result<void> {
    auto made = TorchGroup::open({rank, ranks, device, {.timeout = std::chrono::milliseconds(timeout_ms)}});
    FORESHARD_TRY(made);
    const std::string& own = (*made)->address();
    if (own.size() >= FORESHARD_COLLECTIVES_ADDRESS) return fail(ErrorKind::rendezvous, "a socket's name is too long");
    std::memset(address, 0, FORESHARD_COLLECTIVES_ADDRESS);
    address[0] = static_cast<char>(own.size());
    std::memcpy(address + 1, own.data(), own.size());
    *group = new foreshard_collectives_group{std::move(*made)};
    return {};
  });
}

FORESHARD_EXPORT int foreshard_collectives_connect(foreshard_collectives_group* group, const char* addresses) {
  return guarded([&]() -> Result<void> {
    std::vector<std::string> all;
    for (std::uint32_t r = 0; r < group->group->ranks(); ++r) {
      const char* at = addresses + r * FORESHARD_COLLECTIVES_ADDRESS;
      const auto size = static_cast<unsigned char>(at[0]);
      if (size >= FORESHARD_COLLECTIVES_ADDRESS) return fail(ErrorKind::rendezvous, "an address is damaged");
      all.emplace_back(at + 1, size);
    }
    return group->group->connect(all);
  });
}

FORESHARD_EXPORT void foreshard_collectives_close(foreshard_collectives_group* group) {
  delete group;
}

FORESHARD_EXPORT void foreshard_collectives_select(foreshard_collectives_group* group) {
  selected = group;
  last_error.clear();
  last_number = 0;
}

FORESHARD_EXPORT void* foreshard_collectives_malloc(size_t bytes, int /*device*/, void* /*stream*/) {
  void* memory = nullptr;
  (void)guarded([&]() -> Result<void> {
    if (selected == nullptr) return fail(ErrorKind::usage, "no group is selected on this thread");
    const auto made = selected->group->allocate(bytes);
    FORESHARD_TRY(made);
    memory = *made;
    return {};
  });
  return memory;
}

FORESHARD_EXPORT void foreshard_collectives_free(void* /*memory*/, size_t /*bytes*/, int /*device*/, void* /*stream*/) {
}

FORESHARD_EXPORT int foreshard_collectives_contains(foreshard_collectives_group* group, const void* memory,
                                                    size_t bytes) {
  return group->group->contains(memory, bytes) ? 1 : 0;
}

FORESHARD_EXPORT int foreshard_collectives_all_gather(foreshard_collectives_group* group, const void* input,
                                                      void* output, size_t bytes, void* stream) {
  return guarded([&] { return group->group->all_gather(input, output, bytes, static_cast<cudaStream_t>(stream)); });
}

FORESHARD_EXPORT int foreshard_collectives_reduce_scatter(foreshard_collectives_group* group, const void* input,
                                                          void* output, size_t elements, int input_dtype,
                                                          int output_dtype, float scale, void* stream) {
  return guarded([&]() -> Result<void> {
    const auto in = dtype_of(input_dtype);
    FORESHARD_TRY(in);
    const auto out = dtype_of(output_dtype);
    FORESHARD_TRY(out);
    return group->group->reduce_scatter({input, output, elements, *in, *out, scale}, static_cast<cudaStream_t>(stream));
  });
}

FORESHARD_EXPORT int foreshard_collectives_watch(foreshard_collectives_group* group, uint64_t milliseconds,
                                                 uint64_t grace_ms) {
  const int code = guarded([&] { return group->group->watch(std::chrono::milliseconds(milliseconds)); });
  if (code != 0) foreshard::gpu::end_process_after(std::chrono::milliseconds(grace_ms), code);
  return code;
}

}  // extern "C"

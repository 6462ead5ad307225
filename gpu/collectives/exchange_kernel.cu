#include "gpu/collectives/driver.hpp"
#include "gpu/collectives/elements.cuh"
#include "gpu/collectives/exchange_kernel.hpp"

namespace foreshard::gpu {
namespace {

constexpr int kThreads = 512;
constexpr std::uint32_t kLanes = 8;                      // of a line, 16 bytes each
constexpr std::uint32_t kLinesAWarp = 32 / kLanes;       // at a time
constexpr std::uint32_t kLinesACta = kThreads / kLanes;  // at a time
constexpr std::uint32_t kWord = sizeof(std::uint64_t);   // of a lane's two; the last lane's second is the flag
constexpr std::uint32_t kSpinsBetweenLooks = 4096;       // at what the host says
static_assert(kLinesACta == kExchangeLinesACta && kLanes * 2 * kWord == kExchangeLine &&
              kExchangePayload == kExchangeLine - kWord);

struct Words {
  std::uint64_t first;
  std::uint64_t second;
};

__device__ void store_line(char* to, const Words& words) {
  asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(words.first), "l"(words.second) : "memory");
}
__device__ Words load_line(const char* from) {
  Words words;
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(words.first), "=l"(words.second)
               : "l"(from)
               : "memory");
  return words;
}

/// How many of a word's bytes at `offset` lie in the slice.
__device__ std::uint32_t bytes_at(const ExchangeItem& item, Bytes offset) {
  return offset >= item.slice ? 0 : static_cast<std::uint32_t>(min(item.slice - offset, Bytes{kWord}));
}

__device__ std::uint64_t load_word(const char* from, std::uint32_t bytes) {
  if (bytes == kWord && reinterpret_cast<std::uintptr_t>(from) % kWord == 0)
    return *reinterpret_cast<const std::uint64_t*>(from);
  std::uint64_t word = 0;
  for (std::uint32_t i = 0; i < bytes; ++i) word |= std::uint64_t{static_cast<unsigned char>(from[i])} << (8 * i);
  return word;
}
__device__ void store_word(char* to, std::uint64_t word, std::uint32_t bytes) {
  if (bytes == kWord && reinterpret_cast<std::uintptr_t>(to) % kWord == 0) {
    *reinterpret_cast<std::uint64_t*>(to) = word;
    return;
  }
  for (std::uint32_t i = 0; i < bytes; ++i) to[i] = static_cast<char>(word >> (8 * i));
}

/// The lines of a slice, four at a time for each warp of the grid: a warp goes through them as one.
class Lines {
 public:
  __device__ explicit Lines(const ExchangeItem& item)
      : lines_(exchange_lines(item.slice)),
        lane_(threadIdx.x % kLanes),
        at_((blockIdx.x * std::uint64_t{kThreads} + threadIdx.x) / 32 * kLinesAWarp) {}
  __device__ bool more() const { return at_ < lines_; }
  __device__ void next() { at_ += std::uint64_t{gridDim.x} * kLinesACta; }

  /// Whether this thread's line exists.
  __device__ bool here() const { return line() < lines_; }
  __device__ bool has_flag() const { return lane_ == kLanes - 1; }
  /// Of this thread's first word in the slice.
  __device__ Bytes offset() const { return line() * kExchangePayload + lane_ * 2 * kWord; }
  /// In an inbox: where this thread's part of the line from `rank` lies.
  __device__ Bytes place(std::uint32_t rank) const {
    return (rank * lines_ + line()) * kExchangeLine + lane_ * 2 * kWord;
  }

 private:
  __device__ std::uint64_t line() const { return at_ + threadIdx.x % 32 / kLanes; }
  std::uint64_t lines_;
  std::uint32_t lane_;
  std::uint64_t at_;  ///< this warp's first line
};

/// This thread's words at `from`, the slice's beginning, and the call's number where it holds the flag.
__device__ Words own_words(const ExchangeItem& item, const Lines& lines, const char* from) {
  Words words{0, item.call};
  if (!lines.here()) return words;
  const Bytes offset = lines.offset();
  words.first = load_word(from + offset, bytes_at(item, offset));
  if (!lines.has_flag()) words.second = load_word(from + offset + kWord, bytes_at(item, offset + kWord));
  return words;
}

/// The same line of every peer, by rank, when all have come; false when the host has given the group up. kBound: ranks,
/// or as many as there can be.
template <int kBound>
__device__ bool receive(const ExchangeItem& item, const Lines& lines, Words (&words)[kBound]) {
  const char* inbox = item.inbox[item.rank];
  for (std::uint32_t spins = 1;; ++spins) {
    bool missing = false;
    if (lines.here()) {
#pragma unroll
      for (std::uint32_t r = 0; r < kBound; ++r)
        if (r != item.rank && r < item.ranks) words[r] = load_line(inbox + lines.place(r));
#pragma unroll
      for (std::uint32_t r = 0; r < kBound; ++r)
        if (r != item.rank && r < item.ranks) missing |= lines.has_flag() && words[r].second != item.call;
    }
    if (__any_sync(~0U, missing) == 0) return true;
    if (spins % kSpinsBetweenLooks == 0 && __any_sync(~0U, load_system(item.abandon) != 0) != 0) return false;
  }
}

template <int kRanks>
inline constexpr int kBoundOf = kRanks != 0 ? kRanks : static_cast<int>(kMaxPeers);

/// kRanks: the number of ranks where it is known when compiled, else 0.
template <int kRanks>
__global__ void __launch_bounds__(kThreads) foreshard_exchange_gather(const __grid_constant__ ExchangeItem item) {
  char* const output = static_cast<char*>(item.output);
  char* const own = output + item.rank * item.slice;
  const char* const input = static_cast<const char*>(item.input);
  const auto put = [&](const Lines& lines, char* slice, const Words& words) {
    const Bytes offset = lines.offset();
    store_word(slice + offset, words.first, bytes_at(item, offset));
    if (!lines.has_flag()) store_word(slice + offset + kWord, words.second, bytes_at(item, offset + kWord));
  };
  for (Lines lines(item); lines.more(); lines.next()) {
    const Words words = own_words(item, lines, input);
    __syncwarp();
    if (!lines.here()) continue;
    for (std::uint32_t d = 1; d < item.ranks; ++d)
      store_line(item.inbox[(item.rank + d) % item.ranks] + lines.place(item.rank), words);
    if (own != input) put(lines, own, words);
  }
  Words words[kBoundOf<kRanks>];
  for (Lines lines(item); lines.more(); lines.next()) {
    if (!receive<kBoundOf<kRanks>>(item, lines, words)) return;
    if (!lines.here()) continue;
#pragma unroll
    for (std::uint32_t r = 0; r < kBoundOf<kRanks>; ++r)
      if (r != item.rank && r < item.ranks) put(lines, output + r * item.slice, words[r]);
  }
}

/// The sums of a word's elements: kBound words, by rank.
template <class In, class Out, int kBound>
__device__ void reduce_word(const ExchangeItem& item, Bytes offset, const std::uint64_t (&words)[kBound]) {
  constexpr int kCount = kWord / sizeof(In);
  struct alignas(kCount * sizeof(Out)) Results {
    Out x[kCount];
  };
  const std::uint32_t count = bytes_at(item, offset) / sizeof(In);
  if (count == 0) return;
  float sum[kCount];
  unpack<In>(reinterpret_cast<const uint2&>(words[0]), sum);
#pragma unroll
  for (std::uint32_t r = 1; r < kBound; ++r) {
    if (r >= item.ranks) continue;
    float more[kCount];
    unpack<In>(reinterpret_cast<const uint2&>(words[r]), more);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] += more[i];
  }
  Results results;
#pragma unroll
  for (int i = 0; i < kCount; ++i) results.x[i] = narrow<Out>(sum[i] * item.scale);
  Out* const to = static_cast<Out*>(item.output) + offset / sizeof(In);
  if (count == kCount && reinterpret_cast<std::uintptr_t>(to) % sizeof(Results) == 0) {
    *reinterpret_cast<Results*>(to) = results;
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    if (i < count) to[i] = results.x[i];
}

template <class In, class Out, int kRanks>
__global__ void __launch_bounds__(kThreads) foreshard_exchange_reduce(const __grid_constant__ ExchangeItem item) {
  constexpr int kBound = kBoundOf<kRanks>;
  const char* const input = static_cast<const char*>(item.input);
  for (Lines lines(item); lines.more(); lines.next()) {
    for (std::uint32_t d = 1; d < item.ranks; ++d) {
      const std::uint32_t peer = (item.rank + d) % item.ranks;
      const Words words = own_words(item, lines, input + peer * item.slice);
      __syncwarp();
      if (lines.here()) store_line(item.inbox[peer] + lines.place(item.rank), words);
    }
  }
  Words words[kBound] = {};
  for (Lines lines(item); lines.more(); lines.next()) {
    const Words own = own_words(item, lines, input + item.rank * item.slice);
    if (!receive<kBound>(item, lines, words)) return;
    if (!lines.here()) continue;
    std::uint64_t first[kBound];
    std::uint64_t second[kBound];
#pragma unroll
    for (std::uint32_t r = 0; r < kBound; ++r) {
      first[r] = r == item.rank ? own.first : words[r].first;
      second[r] = r == item.rank ? own.second : words[r].second;
    }
    reduce_word<In, Out>(item, lines.offset(), first);
    if (!lines.has_flag()) reduce_word<In, Out>(item, lines.offset() + kWord, second);
  }
}

using Kernel = void (*)(ExchangeItem);

Kernel choose_gather(std::uint32_t ranks) {
  switch (ranks) {
    case 2:
      return foreshard_exchange_gather<2>;
    case 4:
      return foreshard_exchange_gather<4>;
    default:
      return foreshard_exchange_gather<0>;
  }
}

template <class In, class Out>
Kernel choose_ranks(std::uint32_t ranks) {
  switch (ranks) {
    case 2:
      return foreshard_exchange_reduce<In, Out, 2>;
    case 4:
      return foreshard_exchange_reduce<In, Out, 4>;
    default:
      return foreshard_exchange_reduce<In, Out, 0>;
  }
}

template <class In>
Kernel choose_output(const ExchangeItem& item) {
  switch (item.output_type) {
    case DType::float32:
      return choose_ranks<In, float>(item.ranks);
    case DType::bfloat16:
      return choose_ranks<In, __nv_bfloat16>(item.ranks);
    case DType::float16:
      return choose_ranks<In, __half>(item.ranks);
    default:
      return nullptr;
  }
}

Kernel choose_reduce(const ExchangeItem& item) {
  switch (item.input_type) {
    case DType::float32:
      return choose_output<float>(item);
    case DType::bfloat16:
      return choose_output<__nv_bfloat16>(item);
    case DType::float16:
      return choose_output<__half>(item);
    default:
      return nullptr;
  }
}

Result<void> launch(Kernel kernel, const ExchangeItem& item, std::uint32_t ctas, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = exchange_ctas(item.slice, ctas);
  config.blockDim = kThreads;
  config.stream = stream;
  return check(cudaLaunchKernelEx(&config, kernel, item), "cudaLaunchKernelEx(foreshard_exchange)");
}

}  // namespace

Result<void> launch_exchange_gather(const ExchangeItem& item, std::uint32_t ctas, cudaStream_t stream) {
  return launch(choose_gather(item.ranks), item, ctas, stream);
}

Result<void> launch_exchange_reduce(const ExchangeItem& item, std::uint32_t ctas, cudaStream_t stream) {
  const Kernel kernel = choose_reduce(item);
  if (kernel == nullptr) return fail(ErrorKind::mismatch, "a reduce-scatter sums float32, bfloat16 and float16 only");
  return launch(kernel, item, ctas, stream);
}

}  // namespace foreshard::gpu

// Strong types for the quantities that every room exchanges: time, sizes, ids.
//
// Used by all rooms. Plain values, no ownership, thread-safe by being immutable numbers.
// Determinism: simulated time is a 64-bit integer of nanoseconds; the only conversion from
// floating point is Nanoseconds::from_double, which rounds half away from zero.
#pragma once

#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace foreshard {

/// A size in bytes. Unsigned 64-bit, as in CUDACachingAllocator.cpp. 2^30 is a GiB, 10^9 a GB.
using Bytes = std::uint64_t;

/// A device virtual address. Compared as an unsigned integer, as the caching allocator does.
using Address = std::uint64_t;

inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;
inline constexpr Bytes kGiB = 1024 * kMiB;

/// A point on the simulated clock, or a length of time, in nanoseconds. Never negative on a clock;
/// differences may be.
struct Nanoseconds {
  std::int64_t count = 0;

  [[nodiscard]] static Nanoseconds from_double(double ns) { return {static_cast<std::int64_t>(std::llround(ns))}; }
  [[nodiscard]] static constexpr Nanoseconds from_us(std::int64_t us) { return {us * 1000}; }
  [[nodiscard]] constexpr double us() const { return static_cast<double>(count) / 1e3; }
  [[nodiscard]] constexpr double ms() const { return static_cast<double>(count) / 1e6; }

  constexpr auto operator<=>(const Nanoseconds&) const = default;
  constexpr Nanoseconds& operator+=(Nanoseconds other) {
    count += other.count;
    return *this;
  }
  constexpr Nanoseconds& operator-=(Nanoseconds other) {
    count -= other.count;
    return *this;
  }
  friend constexpr Nanoseconds operator+(Nanoseconds a, Nanoseconds b) { return {a.count + b.count}; }
  friend constexpr Nanoseconds operator-(Nanoseconds a, Nanoseconds b) { return {a.count - b.count}; }
  /// Multiplies by a dimensionless factor and rounds once.
  [[nodiscard]] Nanoseconds scaled(double factor) const { return from_double(static_cast<double>(count) * factor); }
};

/// An index that cannot be confused with another kind of index. `Tag` is never defined.
template <class Tag>
struct Id {
  std::uint32_t value = kNone;
  static constexpr std::uint32_t kNone = 0xffffffffu;

  [[nodiscard]] constexpr bool valid() const { return value != kNone; }
  constexpr auto operator<=>(const Id&) const = default;
};

using StreamId = Id<struct StreamTag>;              ///< a CUDA stream of one device; 0 is the default stream
using EventId = Id<struct EventTag>;                ///< one recording of a CUDA event; never reused
using OpId = Id<struct OpTag>;                      ///< one kernel, copy or collective put on a stream, in issue order
using CommunicatorId = Id<struct CommunicatorTag>;  ///< one NCCL communicator
using PoolId = Id<struct PoolTag>;                  ///< a memory pool of the caching allocator; 0 is the default pool
using BlockId = Id<struct BlockTag>;                ///< one allocation in its life from malloc to free, in malloc order
using UnitId = Id<struct UnitTag>;                  ///< an FSDP unit (one `fully_shard` call); 0 is the root
using ParameterId = Id<struct ParameterTag>;        ///< a parameter, counted over all units in unit order
using TensorId = Id<struct TensorTag>;              ///< a named allocation of a workload's program
using LabelId = Id<struct LabelTag>;                ///< an interned string
using FrameId = Id<struct FrameTag>;                ///< an interned frame of a call stack
using StackId = Id<struct StackTag>;                ///< an interned call stack

inline constexpr StreamId kComputeStream{0};  ///< the user's current stream (CUDA's default stream, handle 0)
inline constexpr PoolId kDefaultPool{0};
inline constexpr UnitId kRootUnit{0};

/// Smallest integer ≥ a/b; b > 0.
[[nodiscard]] constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  return (a + b - 1) / b;
}

/// a rounded up to a multiple of b; b > 0.
[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t a, std::uint64_t b) {
  return ceil_div(a, b) * b;
}

}  // namespace foreshard

template <class Tag>
struct std::hash<foreshard::Id<Tag>> {
  std::size_t operator()(foreshard::Id<Tag> id) const noexcept { return std::hash<std::uint32_t>{}(id.value); }
};

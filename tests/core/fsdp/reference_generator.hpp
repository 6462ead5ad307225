// The host-order generator of fsdp2 semantics 8, written out as it stands there: what FSDP2 allocates and frees,
// with no events, streams of work or costs. An expectation for FullyShard that shares no code with it but the sizes
// of copy metadata (which tests/core/shard checks on their own).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/settings/settings.hpp"
#include "core/workload/unit.hpp"

namespace foreshard::test {

class ReferenceGenerator {
 public:
  /// More than one rank in a shard group. Lines are those of LoggingBackend::memory().
  ReferenceGenerator(const Settings& settings, const std::vector<Unit>& units);

  void pre_forward(std::size_t g);
  void post_forward(std::size_t g);
  void pre_backward(std::size_t g);
  void post(std::size_t g, bool sync, bool new_gradients);
  void final_callback(bool sync, bool root_gradients);
  void zero_grad(const std::vector<std::size_t>& order);

  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }

 private:
  enum class Phase { forward, backward };
  struct Group {
    std::vector<std::uint64_t> padded;  // elements of a rank's padded shard, by parameter
    std::vector<std::uint64_t> numel;
    Reshard reshard;
    std::vector<std::size_t> forward_list;
    std::vector<std::size_t> backward_list;
    bool pending = false;
    bool unsharded = false;
    bool small = false;
    bool done = false;  // reduced in this backward
    std::vector<std::size_t> stack;
    bool gradients = false;    // unreduced, in .grad
    bool accumulated = false;  // unreduced, in the reduce dtype
    bool flat = false;         // a live sharded gradient block
    bool kept_output = false;  // HSDP with a cast back: RO until finalize
  };

  void a(const std::string& what, std::size_t g, std::uint64_t bytes, const char* stream);
  void ap(const std::string& what, std::size_t g, std::size_t p, std::uint64_t bytes, const char* stream);
  void f(const std::string& what, std::size_t g);
  void fp(const std::string& what, std::size_t g, std::size_t p);
  void issue(std::size_t g);
  void finish(std::size_t g, Phase phase);
  void reshard(std::size_t g, bool forward);
  void reduce(std::size_t g);
  [[nodiscard]] std::uint64_t sum(std::size_t g) const;
  [[nodiscard]] const char* gather_stream() const { return async_ || on_compute_ ? "cur" : "CI"; }

  std::vector<Group> groups_;
  std::vector<std::string> lines_;
  std::vector<std::size_t> order_;
  std::optional<std::size_t> slot_;
  std::optional<std::size_t> reduce_slot_;
  std::uint64_t ranks_ = 1;
  std::uint64_t original_ = 4;  // bytes of an element
  std::uint64_t compute_ = 4;
  std::uint64_t reduced_ = 4;
  bool async_ = false;
  bool on_compute_ = false;
  bool offload_ = false;
  bool hybrid_ = false;
  bool symmetric_ = false;
};

}  // namespace foreshard::test

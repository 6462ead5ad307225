#include "tests/core/fsdp/reference_generator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/shard/copy_metadata.hpp"

namespace foreshard::test {
namespace {

constexpr std::uint32_t kSms = 132;

}  // namespace

ReferenceGenerator::ReferenceGenerator(const Settings& s, const std::vector<Unit>& units)
    : ranks_(s.world() / s.replicate),
      async_(s.unshard_async),
      on_compute_(s.gather_alloc == GatherAlloc::compute),
      offload_(s.offload),
      hybrid_(s.replicate > 1),
      symmetric_(s.all_gather == Transport::copy_engine || s.all_gather == Transport::symmetric) {
  if (s.param_dtype) compute_ = itemsize(*s.param_dtype);
  reduced_ = s.reduce_dtype ? itemsize(*s.reduce_dtype) : compute_;
  for (std::size_t g = 0; g < units.size(); ++g) {
    Group group;
    for (const Parameter& p : units[g].parameters) {
      std::uint64_t rest = 1;
      for (std::size_t d = 1; d < p.shape.size(); ++d) rest *= static_cast<std::uint64_t>(p.shape[d]);
      const auto rows = static_cast<std::uint64_t>(p.shape[0]);
      group.padded.push_back((rows + ranks_ - 1) / ranks_ * rest);
      group.numel.push_back(rows * rest);
    }
    group.reshard = s.reshard_after_forward;
    if (g == 0 && !s.root_reshard_explicit) group.reshard = {Reshard::Kind::never, 0};
    for (std::size_t k = 1; k <= s.forward_prefetch.value_or(0) && g > 0 && g + k < units.size(); ++k)
      group.forward_list.push_back(g + k);
    for (std::size_t k = 1; k <= s.backward_prefetch.value_or(0) && g > k; ++k) group.backward_list.push_back(g - k);
    groups_.push_back(group);
  }
}

std::uint64_t ReferenceGenerator::sum(std::size_t g) const {
  std::uint64_t total = 0;
  for (std::uint64_t n : groups_[g].padded) total += n;
  return total;
}

void ReferenceGenerator::a(const std::string& what, std::size_t g, std::uint64_t bytes, const char* stream) {
  const bool symmetric = symmetric_ && what == "AG";
  lines_.push_back(fmt::format("a {} {} {} {}{}", what, g, bytes, stream, symmetric ? " symmetric" : ""));
}
void ReferenceGenerator::ap(const std::string& what, std::size_t g, std::size_t p, std::uint64_t bytes,
                            const char* stream) {
  lines_.push_back(fmt::format("a {} {}.{} {} {}", what, g, p, bytes, stream));
}
void ReferenceGenerator::f(const std::string& what, std::size_t g) {
  lines_.push_back(fmt::format("f {} {}", what, g));
}
void ReferenceGenerator::fp(const std::string& what, std::size_t g, std::size_t p) {
  lines_.push_back(fmt::format("f {} {}.{}", what, g, p));
}

void ReferenceGenerator::issue(std::size_t g) {
  Group& u = groups_[g];
  if (u.pending || u.unsharded) return;
  const bool cast = compute_ != original_;
  const bool host = offload_ && !u.small;  // clones are on the device whatever the shards are
  const char* ci = gather_stream();
  if (cast && !host) a("flat", g, (u.small ? sum(g) * ranks_ / u.reshard.group_size : sum(g)) * compute_, ci);
  for (std::size_t p = 0; host && p < u.padded.size(); ++p) {
    ap("h2d", g, p, u.padded[p] * original_, ci);
    if (!cast) continue;
    ap("cast", g, p, u.padded[p] * compute_, ci);
    fp("h2d", g, p);
  }
  a("AG", g, ranks_ * sum(g) * compute_, ci);
  if (cast && !host) f("flat", g);
  for (std::size_t p = u.padded.size(); host && p-- > 0;) fp(cast ? "cast" : "h2d", g, p);
  u.pending = true;
}

void ReferenceGenerator::finish(std::size_t g, Phase phase) {
  Group& u = groups_[g];
  if (!u.pending) return;
  std::optional<std::size_t> old;
  if (phase == Phase::forward) std::swap(old, slot_);
  std::vector<Bytes> chunks;
  const std::uint64_t over = u.small ? u.reshard.group_size : ranks_;
  for (std::size_t p = 0; p < u.padded.size(); ++p) {
    ap("U", g, p, ranks_ * u.padded[p] * compute_, "cur");
    chunks.push_back(ranks_ * u.padded[p] * compute_ / over);
  }
  a("ms", g, split_metadata_bytes(chunks, static_cast<std::uint32_t>(over), kSms), "cur");
  f("ms", g);
  for (std::size_t p = 0; u.small && p < u.padded.size(); ++p) fp("clone", g, p);
  u.small = false;
  u.pending = false;
  u.unsharded = true;
  if (phase == Phase::forward && !async_) {
    slot_ = g;
    if (old) f("AG", *old);
  } else {
    f("AG", g);
  }
}

void ReferenceGenerator::reshard(std::size_t g, bool forward) {
  Group& u = groups_[g];
  if (!u.unsharded || (forward && u.reshard.kind == Reshard::Kind::never)) return;
  const bool clones = forward && u.reshard.kind == Reshard::Kind::group;
  for (std::size_t p = 0; p < u.padded.size(); ++p) {
    if (clones) ap("clone", g, p, ranks_ * u.padded[p] * compute_ / u.reshard.group_size, "cur");
    fp("U", g, p);
  }
  u.unsharded = false;
  u.small = clones;
}

void ReferenceGenerator::pre_forward(std::size_t g) {
  issue(g);
  finish(g, Phase::forward);
  for (std::size_t t : groups_[g].forward_list) issue(t);
}

void ReferenceGenerator::post_forward(std::size_t g) {
  reshard(g, true);
  groups_[g].stack.push_back(order_.size());
  order_.push_back(g);
  if (g == 0 && slot_) {
    f("AG", *slot_);
    slot_.reset();
  }
}

void ReferenceGenerator::pre_backward(std::size_t g) {
  issue(g);
  finish(g, Phase::backward);
  Group& u = groups_[g];
  if (!u.backward_list.empty()) {
    for (std::size_t t : u.backward_list) issue(t);
  } else if (!u.stack.empty()) {
    const std::size_t i = u.stack.back();
    u.stack.pop_back();
    if (i > 0) issue(order_[i - 1]);
  }
}

void ReferenceGenerator::post(std::size_t g, bool sync, bool new_gradients) {
  Group& u = groups_[g];
  u.done = true;
  if (u.accumulated && new_gradients) {
    for (std::size_t p = 0; p < u.padded.size(); ++p) fp("grad", g, p);
    new_gradients = false;
  }
  u.gradients = u.gradients || new_gradients;
  reshard(g, false);
  if (!sync) {
    if (reduced_ == compute_ || !u.gradients) return;
    for (std::size_t p = 0; p < u.padded.size(); ++p) {
      ap("acc", g, p, u.numel[p] * reduced_, "cur");
      fp("grad", g, p);
    }
    u.accumulated = true;
    u.gradients = false;
    return;
  }
  if (u.accumulated || u.gradients) reduce(g);
}

void ReferenceGenerator::reduce(std::size_t g) {
  Group& u = groups_[g];
  const std::string list = u.accumulated ? "acc" : "grad";
  u.accumulated = u.gradients = false;
  if (reduce_slot_) f("RI", *reduce_slot_);
  a("RI", g, ranks_ * sum(g) * reduced_, "cur");
  std::vector<Bytes> chunks;
  for (std::uint64_t n : u.padded) chunks.push_back(n * reduced_);
  a("mc", g, chunk_cat_metadata_bytes(chunks), "cur");
  f("mc", g);
  const std::size_t last = u.padded.size() - 1;
  for (std::size_t p = last; p-- > 0;) fp(list, g, p);
  a("RO", g, sum(g) * reduced_, "RS");
  reduce_slot_ = g;
  std::string result = "RO";
  if (reduced_ != original_) {
    a("out", g, sum(g) * original_, hybrid_ ? "AR" : "RS");
    if (hybrid_)
      u.kept_output = true;
    else
      f("RO", g);
    result = "out";
  }
  const bool added = u.flat;  // into the .grad of an earlier backward
  if (added) f(result, g);
  u.flat = true;
  fp(list, g, last);
  if (!offload_) return;
  f(result, g);
  u.flat = false;
}

void ReferenceGenerator::final_callback(bool sync, bool root_gradients) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Group& u = groups_[g];
    if (!u.done) post(g, sync, g == 0 && root_gradients);
    u.done = false;
    if (u.kept_output) f("RO", g);
    u.kept_output = false;
    if (u.pending) f("AG", g);
    u.pending = false;
    u.stack.clear();
  }
  order_.clear();
  if (reduce_slot_) f("RI", *reduce_slot_);
  reduce_slot_.reset();
}

void ReferenceGenerator::zero_grad(const std::vector<std::size_t>& order) {
  for (std::size_t g : order) {
    if (groups_[g].flat) f(reduced_ != original_ ? "out" : "RO", g);
    groups_[g].flat = false;
  }
}

}  // namespace foreshard::test

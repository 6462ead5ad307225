#include "sim/tune/neighbours.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/settings/settings_table.hpp"
#include "core/settings/version_rules.hpp"
#include "sim/sweep/candidates.hpp"
#include "sim/sweep/time_candidates.hpp"
#include "sim/sweep/wrapped_modules.hpp"
#include "sim/tune/gather_order.hpp"
#include "sim/tune/kept_units.hpp"

namespace foreshard::sim {
namespace {

/// So many of the longest waits are moved one by one; the others with all of their pass.
constexpr std::size_t kMovedAlone = 8;

class Neighbours {
 public:
  explicit Neighbours(const Position& position) : position_(position), at_(position.at), units_(position.units) {
    seen_.insert(text_of(at_));
  }

  void known_remedies();
  void exposed_gathers();
  void depths();
  void kept();
  void reshard_groups();
  void wrapping();
  void reductions();
  void meshes();
  void checkpointing();
  void batches();
  void smaller();
  void add(std::string phrase, std::function<void(Settings&)> change);
  [[nodiscard]] std::vector<Neighbour> take() { return std::move(list_); }

 private:
  /// Gathers of one pass, each so many hooks earlier. Those that were issued behind it go before it still.
  void earlier(std::string phrase, std::vector<std::uint32_t> units, bool backward, std::uint32_t hooks);

  const Position& position_;
  const Settings& at_;
  const std::vector<Unit>& units_;
  std::set<std::string> seen_;
  std::vector<Neighbour> list_;
};

void Neighbours::add(std::string phrase, std::function<void(Settings&)> change) {
  Neighbour out{at_, std::move(phrase), {}, std::move(change)};
  out.change(out.settings);
  out.families = changed_families(at_, out.settings);
  if (out.families.has(MoveFamily::units)) {  // what is said by unit is of units that are no more
    out.change = [change = out.change](Settings& s) {
      change(s);
      forget_units(s);
    };
    out.settings = at_;
    out.change(out.settings);
    out.families = changed_families(at_, out.settings);
  }
  const bool separates = out.settings.separate_reduce_scatter_group && !at_.separate_reduce_scatter_group;
  if (separates && !holds(RuleId::separate_reduce_group, out.settings.pytorch)) return;
  if (!position_.allowed.holds(changed_families(position_.start, out.settings)) || !check(out.settings)) return;
  if (!same_samples(position_.start, out.settings)) return;
  if (seen_.insert(text_of(out.settings)).second) list_.push_back(std::move(out));
}

void Neighbours::known_remedies() {
  const TimeCandidatesOf of{root_has_weights(position_.workload), position_.workload.lowering,
                            computes(position_.workload)};
  for (TimeCandidate& one : time_candidates(at_, of)) add(one.candidate.reason, std::move(one.change));
  if (!position_.short_of_memory) return;
  for (const Candidate& one : candidates(at_, true)) add(one.reason, [to = one.settings](Settings& s) { s = to; });
}

void Neighbours::earlier(std::string phrase, std::vector<std::uint32_t> units, bool backward, std::uint32_t hooks) {
  add(std::move(phrase), [units = std::move(units), backward, hooks, &all = units_](Settings& s) {
    GatherOrder order = gather_order(s, all);
    const auto last = static_cast<std::uint32_t>(all.size() - 1);
    for (const std::uint32_t unit : units) {
      if (backward) {
        const std::uint32_t to = std::min(last, order.backward[unit] + hooks);
        for (std::uint32_t u = unit; u <= last; ++u) order.backward[u] = std::max(order.backward[u], to);
      } else {
        const std::uint32_t to = order.forward[unit] > hooks ? order.forward[unit] - hooks : 1;
        for (std::uint32_t u = 1; u <= unit; ++u) order.forward[u] = std::min(order.forward[u], to);
      }
    }
    set_gather_order(order, all, s);
  });
}

void Neighbours::exposed_gathers() {
  std::vector<std::uint32_t> waiting[2];  // by pass
  std::size_t alone = 0;
  for (const Exposed& one : position_.exposed) {
    if (one.kind != CollectiveKind::all_gather || one.unit == 0 || one.unit >= units_.size()) continue;
    waiting[one.backward ? 1 : 0].push_back(one.unit);
    if (alone++ >= kMovedAlone) continue;
    const std::string& name = units_[one.unit].name;
    const std::string wait = fmt::format("{} waits {:.2f} ms for it", one.backward ? "backward" : "forward", one.ms);
    for (const std::uint32_t hooks : {1U, 2U})
      earlier(fmt::format("{} is gathered {} earlier: {}", name, hooks == 1 ? "one unit" : "two units", wait),
              {one.unit}, one.backward, hooks);
    if (one.backward && at_.reshard_after_forward.kind != Reshard::Kind::never)
      add(fmt::format("{} stays gathered after forward: {}", name, wait), [name](Settings& s) {
        s.reshard_of_unit[name] = {Reshard::Kind::never, 0};
      });
  }
  for (const bool backward : {false, true})
    if (waiting[backward ? 1 : 0].size() > 1)
      earlier(fmt::format("each of the {} units that {} waits for is gathered one unit earlier",
                          waiting[backward ? 1 : 0].size(), backward ? "backward" : "forward"),
              waiting[backward ? 1 : 0], backward, 1);
}

void Neighbours::depths() {
  const std::uint32_t forward = at_.forward_prefetch.value_or(0);
  const std::uint32_t backward = at_.backward_prefetch.value_or(1);
  const auto uniform = [&](std::uint32_t f, std::uint32_t b) {
    add(fmt::format("{} all-gathers ahead in forward and {} in backward", f, b), [f, b](Settings& s) {
      s.prefetch_lists = {};
      s.forward_prefetch = f == 0 ? std::nullopt : std::optional(f);
      s.backward_prefetch = b <= 1 ? std::nullopt : std::optional(b);
    });
  };
  uniform(forward + 1, backward);
  uniform(forward, backward + 1);
  uniform(forward + 1, backward + 1);
  uniform(forward + 2, backward + 2);
  if (forward > 0) uniform(forward - 1, backward);
  if (backward > 1) uniform(forward, backward - 1);
}

void Neighbours::kept() {
  if (at_.reshard_after_forward.kind == Reshard::Kind::never) return;
  const std::uint32_t now = kept_units(at_, units_);
  const std::uint32_t all = most_kept_units(at_, units_);
  const auto keep = [&](std::uint32_t count) {
    if (count > all) return;
    add(count == 0 ? std::string("every unit is resharded after forward")
                   : fmt::format("the last {} units stay gathered after forward: backward begins with them", count),
        [count, &units = units_](Settings& s) { keep_units(count, units, s); });
  };
  for (std::uint32_t by = 1; by <= all; by *= 2) {
    keep(now + by);
    if (now >= by) keep(now - by);
  }
}

void Neighbours::reshard_groups() {
  constexpr std::uint32_t kLargest = 64;
  for (std::uint32_t size = 2; size < std::min(at_.shard_ranks(), kLargest); ++size)
    if (at_.shard_ranks() % size == 0)
      add(fmt::format("after forward parameters stay sharded over {} ranks: backward gathers from them alone", size),
          [size](Settings& s) {
            s.reshard_after_forward = {Reshard::Kind::group, size};
          });
}

void Neighbours::wrapping() {
  const std::uint32_t now = at_.units_per_group;
  for (const std::uint32_t blocks : {now + 1, now * 2, now - 1})
    if (blocks >= 1)
      add(fmt::format("{} blocks a unit", blocks), [blocks](Settings& s) { s.units_per_group = blocks; });
  if (at_.fully_shard_embedding_and_head)
    add("the root holds embedding and head", [](Settings& s) { s.fully_shard_embedding_and_head = false; });
}

void Neighbours::reductions() {
  const std::uint32_t inputs = at_.reduce_scatter_max_input_buffers;
  if (inputs > 1)
    for (const std::uint32_t to : {inputs + 1, inputs - 1})
      add(fmt::format("{} reduce-scatter inputs in flight", to),
          [to](Settings& s) { s.reduce_scatter_max_input_buffers = to; });
  if (at_.separate_reduce_scatter_group)
    add("reduce-scatters share the all-gathers' communicator",
        [](Settings& s) { s.separate_reduce_scatter_group = false; });
}

void Neighbours::meshes() {
  const std::uint32_t ranks = at_.world() / at_.tensor_parallel;
  for (std::uint32_t replicate = 1; replicate <= ranks; ++replicate)
    if (ranks % replicate == 0)
      add(replicate == 1 ? std::string("no HSDP: shards over all ranks")
                         : fmt::format("HSDP: {} copies, whose gradients are all-reduced", replicate),
          [replicate](Settings& s) { s.replicate = replicate; });
}

/// Where something is recomputed, or nothing fits: fewer or more of the blocks.
void Neighbours::checkpointing() {
  if (at_.checkpoint == Checkpoint::none && !position_.short_of_memory) return;
  const auto share = [&](std::uint32_t percent) {
    add(fmt::format("{} % of the blocks are computed again in backward", percent), [percent](Settings& s) {
      s.checkpoint = Checkpoint::selective_layer;
      s.checkpoint_share = percent;
    });
  };
  const std::uint32_t whole = 100;
  const std::uint32_t now = at_.checkpoint == Checkpoint::none              ? 0
                            : at_.checkpoint == Checkpoint::selective_layer ? at_.checkpoint_share
                                                                            : whole;
  const auto blocks = std::max<std::size_t>(1, units_.size() - 1);
  const auto one = std::max(1U, static_cast<std::uint32_t>(whole / blocks));
  for (const std::uint32_t by : {one, 2 * one, 4 * one, 8 * one, 16 * one}) {
    if (now > by) share(now - by);
    if (now + by < whole) share(now + by);
  }
  add("of the blocks attention and every other GEMM are kept",
      [](Settings& s) { s.checkpoint = Checkpoint::selective_op; });
  add("every block is computed again in backward", [](Settings& s) { s.checkpoint = Checkpoint::blocks; });
}

void Neighbours::batches() {
  if (!at_.batch || !position_.allowed.has(MoveFamily::batch)) return;
  const std::uint32_t samples = *at_.batch * at_.accumulate;
  for (std::uint32_t batch = 1; batch <= samples; ++batch)
    if (samples % batch == 0)
      add(fmt::format("batches of {} in {} microbatches", batch, samples / batch), [batch, samples](Settings& s) {
        s.batch = batch;
        s.accumulate = samples / batch;
      });
}

/// What takes less memory, each by itself: what costs most time and saves most first.
void Neighbours::smaller() {
  add("states on the host", [](Settings& s) { s.offload = true; });
  add("every block is computed again in backward", [](Settings& s) { s.checkpoint = Checkpoint::blocks; });
  if (at_.batch)
    add("batches of 1", [samples = *at_.batch * at_.accumulate](Settings& s) {
      s.batch = 1;
      s.accumulate = samples;
    });
  add("no graph's private pool beside the others", [](Settings& s) { s.cuda_graph.reset(); });
  if (at_.optimizer == Optimizer::adam)
    add("the fused optimizer makes no temporaries", [](Settings& s) { s.optimizer = Optimizer::adam_fused; });
  const bool has_ends = root_has_weights(position_.workload);
  add("each block is a unit, and embedding and head are", [has_ends](Settings& s) {
    s.units_per_group = 1;
    s.fully_shard_embedding_and_head = s.fully_shard_embedding_and_head || has_ends;
  });
  add("FSDP2's own prefetch: one all-gather ahead", [](Settings& s) {
    s.forward_prefetch.reset();
    s.backward_prefetch.reset();
    s.prefetch_lists = {};
  });
  add("gathered parameters go after forward", [](Settings& s) {
    s.reshard_after_forward = {};
    s.reshard_of_unit.clear();
  });
  add("parameters are sharded over all ranks", [](Settings& s) { s.replicate = 1; });
}

}  // namespace

std::vector<Neighbour> neighbours(const Position& position) {
  Neighbours list(position);
  list.exposed_gathers();
  list.kept();
  list.depths();
  list.known_remedies();
  list.reshard_groups();
  list.wrapping();
  list.reductions();
  list.meshes();
  list.checkpointing();
  list.batches();
  return list.take();
}

std::vector<Neighbour> deeper_prefetch(const Position& position) {
  Neighbours list(position);
  constexpr std::uint32_t kEach = 4;  // up to there every depth, then half as deep again
  for (std::uint32_t depth = 1; depth < position.units.size(); depth += depth < kEach ? 1 : depth / 2)
    list.add(fmt::format("{} all-gathers ahead in forward and backward", depth), [depth](Settings& s) {
      s.prefetch_lists = {};
      s.forward_prefetch = s.backward_prefetch = depth;
    });
  return list.take();
}

std::vector<Neighbour> simpler_settings(const Settings& start, const Settings& at) {
  std::vector<Neighbour> out;
  std::set<std::string> seen{text_of(at)};
  const auto add = [&](const Settings& settings) {
    if (same_samples(start, settings) && check(settings) && seen.insert(text_of(settings)).second)
      out.push_back({settings, {}, {}, {}});
  };
  for (const MoveFamily family : kEnumValues<MoveFamily>) add(with_family_of(start, family, at));
  const auto before = setting_options(start);
  const auto after = setting_options(at);
  for (std::size_t i = 0; i < after.size(); ++i) {
    Settings settings = at;
    if (after[i] == before[i] || !set_setting(settings, after[i].first, before[i].second)) continue;
    if (changed_families(at, settings).has(MoveFamily::units)) forget_units(settings);
    add(settings);
  }
  const std::uint32_t forward = at.forward_prefetch.value_or(0);
  const std::uint32_t backward = at.backward_prefetch.value_or(1);
  for (std::uint32_t depth = 1; depth < std::max(forward, backward); ++depth) {
    Settings settings = at;
    if (depth < forward) settings.forward_prefetch = depth;
    if (depth > 1 && depth < backward) settings.backward_prefetch = depth;
    add(settings);
  }
  return out;
}

std::vector<Neighbour> smaller_moves(const Position& position) {
  Neighbours list(position);
  list.smaller();
  return list.take();
}

std::vector<Neighbour> smaller_settings(const Position& position, const std::vector<Neighbour>& moves) {
  Neighbours list(position);
  const auto all_but = [&](std::optional<MoveFamily> left_out, bool async) {
    std::string phrase = async ? "gathers as async ops, on the compute stream's memory" : "";
    std::vector<Neighbour> parts;
    for (const Neighbour& one : moves) {
      if (left_out && one.families.has(*left_out)) continue;
      phrase += (phrase.empty() ? "" : "; ") + one.phrase;
      parts.push_back(one);
    }
    list.add(phrase, [parts, async](Settings& s) {
      for (const Neighbour& part : parts) part.change(s);
      s.unshard_async = s.unshard_async || async;
    });
  };
  all_but({}, true);
  all_but({}, false);
  all_but(MoveFamily::offload, false);
  all_but(MoveFamily::checkpoint, false);
  for (const Neighbour& one : moves) list.add(one.phrase, one.change);
  return list.take();
}

std::vector<Neighbour> together(const Position& position, const std::vector<Neighbour>& best_first) {
  Neighbours list(position);
  std::vector<Neighbour> chosen;
  std::string phrase;
  for (const Neighbour& one : best_first) {
    if (std::any_of(chosen.begin(), chosen.end(),
                    [&](const Neighbour& other) { return other.families.meets(one.families); }))
      continue;
    chosen.push_back(one);
    phrase += (phrase.empty() ? "" : "; ") + one.phrase;
    if (chosen.size() < 2) continue;
    list.add(phrase, [chosen](Settings& s) {
      for (const Neighbour& part : chosen) part.change(s);
    });
  }
  return list.take();
}

}  // namespace foreshard::sim

#include "gpu/bootstrap/liveness_monitor.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace foreshard::gpu {
namespace {

std::string seconds(Milliseconds time) {
  return fmt::format("{:.1f} s", static_cast<double>(time.count()) / 1e3);
}

}  // namespace

LivenessMonitor::LivenessMonitor(std::uint32_t ranks, const Timeouts& timeouts, TimePoint now)
    : ranks_(ranks), timeouts_(timeouts), start_(now) {}

void LivenessMonitor::joined(std::uint32_t rank, TimePoint now) {
  ranks_[rank].joined = true;
  ranks_[rank].heard = now;
  if (!all_joined()) return;
  for (Rank& each : ranks_) each.progressed = now;  // from here on they can get on
}

void LivenessMonitor::heartbeat(std::uint32_t rank, std::uint64_t progress, Milliseconds timeout, std::string operation,
                                TimePoint now) {
  Rank& r = ranks_[rank];
  if (progress != r.progress) r.progressed = now;
  r.progress = progress;
  r.timeout = timeout;
  if (!operation.empty()) r.operation = std::move(operation);
}

void LivenessMonitor::waits(std::uint32_t rank, std::string what, TimePoint now) {
  Rank& r = ranks_[rank];
  r.waiting = true;
  r.waiting_since = now;
  r.operation = what;
  r.what = std::move(what);
}

void LivenessMonitor::met(TimePoint now) {
  for (Rank& r : ranks_) {
    r.waiting = false;
    r.progressed = now;
  }
}

void LivenessMonitor::paused(Milliseconds time) {
  start_ += time;
  for (Rank& r : ranks_) {
    r.heard += time;
    r.progressed += time;
    r.waiting_since += time;
  }
}

bool LivenessMonitor::all_joined() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.joined; });
}

bool LivenessMonitor::all_finished() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.finished; });
}

std::optional<RunFailure> LivenessMonitor::overdue(TimePoint now) const {
  if (auto failure = silent(now)) return failure;
  if (!all_joined()) return missing(now);
  if (auto failure = stuck(now)) return failure;
  return awaited(now);
}

RunFailure LivenessMonitor::attribute_failure(std::uint32_t rank, std::string cause, std::string hint) const {
  return {ErrorKind::rank_hung, rank, ranks_[rank].operation, std::move(cause), {}, std::move(hint)};
}

std::optional<RunFailure> LivenessMonitor::missing(TimePoint now) const {
  if (now - start_ < timeouts_.join) return std::nullopt;
  return absent("within " + seconds(timeouts_.join));
}

RunFailure LivenessMonitor::absent(std::string_view when) const {
  const auto first = std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return !r.joined; });
  const auto came = std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.joined; });
  RunFailure failure = attribute_failure(
      static_cast<std::uint32_t>(first - ranks_.begin()),
      fmt::format("did not come to the rendezvous {} ({} of {} ranks came)", when, came, ranks_.size()),
      "was it started, with the same address, port and secret, and may it reach this port?");
  failure.kind = ErrorKind::rendezvous;
  return failure;
}

std::optional<RunFailure> LivenessMonitor::silent(TimePoint now) const {
  std::optional<std::uint32_t> longest;
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    const Rank& r = ranks_[i];
    if (!r.joined || now - r.heard < timeouts_.silence) continue;
    if (!longest || r.heard < ranks_[*longest].heard) longest = i;
  }
  if (!longest) return std::nullopt;
  return attribute_failure(
      *longest, fmt::format("has not been heard of for {}: it is stopped, or its host or network is gone",
                            seconds(std::chrono::duration_cast<Milliseconds>(now - ranks_[*longest].heard))));
}

std::optional<RunFailure> LivenessMonitor::stuck(TimePoint now) const {
  std::optional<std::uint32_t> least;
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    const Rank& r = ranks_[i];
    if (r.waiting || r.finished) continue;
    if (!least || r.progress < ranks_[*least].progress) least = i;
  }
  if (!least) return std::nullopt;
  // The others may have stopped before it, but only to wait for it.
  const Milliseconds own = ranks_[*least].timeout;
  const Milliseconds timeout = own == Milliseconds::zero() ? timeouts_.progress : own;
  if (now - ranks_[*least].progressed < timeout) return std::nullopt;
  const auto time = std::chrono::duration_cast<Milliseconds>(now - ranks_[*least].progressed);
  return attribute_failure(*least, fmt::format("hangs: no new operation for {}", seconds(time)));
}

std::optional<RunFailure> LivenessMonitor::awaited(TimePoint now) const {
  const auto due = [&](const Rank& r) { return r.waiting && now - r.waiting_since >= timeouts_.bootstrap; };
  const auto waiting = std::find_if(ranks_.begin(), ranks_.end(), due);
  if (waiting == ranks_.end()) return std::nullopt;
  const auto absent = std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return !r.waiting; });
  return attribute_failure(static_cast<std::uint32_t>(absent - ranks_.begin()),
                           fmt::format("did not come to '{}' within {}", waiting->what, seconds(timeouts_.bootstrap)));
}

}  // namespace foreshard::gpu

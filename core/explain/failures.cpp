#include "core/explain/failures.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/allocator/sizes.hpp"
#include "core/base/units.hpp"

namespace foreshard::explain_detail {
namespace {

/// Free memory as a request sees it.
struct Supply {
  Bytes here = 0;  ///< its stream, pool and size class
  Bytes largest = 0;
  std::uint64_t pieces = 0;
  Bytes elsewhere = 0;  ///< other streams
  Bytes private_free = 0;
};

bool is_small(Address begin, const Segment& segment) {
  return segment.page != 0 ? segment.page == kSmallBuffer : segment.end - begin == kSmallBuffer;
}

Supply supply(const MemoryState& state, const FailedRequest& failed) {
  Supply out;
  for_each_free(state, [&](Address begin, const Segment& segment, Address from, Address to) {
    if (segment.stream != failed.stream) {
      out.elsewhere += to - from;
    } else if (is_small(begin, segment) == failed.small_pool) {
      out.here += to - from;
      out.largest = std::max(out.largest, to - from);
      ++out.pieces;
    }
  });
  out.private_free = failed.parts.private_pool;
  return out;
}

void say_why(const Supply& s, const std::string& stream, FailedRequest& f) {
  f.why.push_back(fmt::format("the request needs one free block of {} on the {} stream, {} pool: {}",
                              format_bytes(f.size), stream, f.small_pool ? "small" : "large",
                              s.pieces == 0 ? std::string("nothing is free there")
                                            : fmt::format("{} are free there in {} pieces, the largest {}",
                                                          format_bytes(s.here), s.pieces, format_bytes(s.largest))));
  if (f.device_free && *f.device_free < f.segment)
    f.why.push_back(fmt::format("the driver was asked for {} and had {} free", format_bytes(f.segment),
                                format_bytes(*f.device_free)));
  else if (f.device_free)
    f.why.push_back(fmt::format(
        "the driver had {} free, more than the {} asked for: a limit refused it (set_per_process_memory_fraction, or "
        "the plan's memory limit)",
        format_bytes(*f.device_free), format_bytes(f.segment)));
  if (f.parts.pending_free > 0)
    f.why.push_back(
        fmt::format("{} freed by the program wait for events of other streams", format_bytes(f.parts.pending_free)));
  if (s.elsewhere > 0)
    f.why.push_back(fmt::format("{} are free on other streams, which this one may not use", format_bytes(s.elsewhere)));
  if (s.private_free > 0) f.why.push_back(fmt::format("{} are free in private pools", format_bytes(s.private_free)));
}

/// What would have made it fit, from the least to the most trouble; at the end how much is missing.
void say_remedies(const Supply& s, FailedRequest& f) {
  const Bytes driver = f.device_free && *f.device_free < f.segment ? *f.device_free : 0;
  if (s.largest >= f.size)
    f.remedies.push_back(
        "asking again: a fitting block came free while the allocator waited for events, and it does not search a "
        "second time (pytorch#189504)");
  if (f.size < f.segment && driver >= f.size)
    f.remedies.push_back(
        fmt::format("the driver had enough for the block, not for its segment of {}", format_bytes(f.segment)));
  Bytes sum = s.here + driver;
  if (sum >= f.size)
    f.remedies.push_back(
        fmt::format("PYTORCH_ALLOC_CONF=expandable_segments:True: {} free on this stream and {} of the driver's are "
                    "enough once free pages can move",
                    format_bytes(s.here), format_bytes(driver)));
  const auto with = [&](Bytes more, const std::string& what) {
    if (more > 0 && sum < f.size && sum + more >= f.size) f.remedies.push_back(what);
    sum += more;
  };
  with(f.parts.pending_free, fmt::format("freeing in host order instead of record_stream: {} are pending",
                                         format_bytes(f.parts.pending_free)));
  with(s.elsewhere, fmt::format("allocating on one stream (unshard async op, or --gather-alloc compute): {} are free "
                                "on others",
                                format_bytes(s.elsewhere)));
  with(s.private_free, fmt::format("giving up private pools: {} are free in them", format_bytes(s.private_free)));
  if (f.remedies.empty())
    f.remedies.push_back(fmt::format("nothing that is free would do: {} more are needed", format_bytes(f.size - sum)));
}

}  // namespace

std::vector<FailedRequest> failed_requests(const Run& run, const Moments& moments, MemoryWalk walk) {
  std::vector<FailedRequest> out;
  const AllocatorConfig config = allocator_config(run);
  for (std::size_t i = 0; i < run.allocator.size() && out.size() < kMaxFailures; ++i) {
    const AllocatorRecord& event = run.allocator[i];
    if (event.action != AllocatorAction::oom) continue;
    while (walk.applied() < i && walk.next()) {
    }
    FailedRequest failed;
    failed.event = i;
    failed.time = event.time;
    failed.step = step_at(run, event.time);
    failed.size = event.size;
    failed.segment = event.size <= kMaxRequest ? segment_size(event.size, config) : event.size;
    failed.stream = event.stream;
    failed.small_pool = event.size <= kSmallSize;
    failed.device_free = event.address;
    failed.parts = walk.state().parts();
    const Supply found = supply(walk.state(), failed);
    failed.free_here = found.here;
    failed.largest_here = found.largest;
    failed.free_elsewhere = found.elsewhere;
    say_why(found, moments.stream_name(event.stream), failed);
    say_remedies(found, failed);
    out.push_back(std::move(failed));
  }
  return out;
}

}  // namespace foreshard::explain_detail

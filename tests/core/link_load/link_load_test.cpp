// Rates over time, and a link's use of a step, by hand.

#include "core/link_load/link_load.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <cmath>

#include "tests/catch.hpp"

using namespace foreshard;

namespace {

LinkLoad link_of(std::vector<LinkTransfer> transfers, double most = 100) {
  return {LinkClass::nvlink, most, std::move(transfers)};
}

IdlePart part(std::int64_t start, std::int64_t end, IdleCause cause, std::size_t op) {
  IdlePart out;
  out.start = {start};
  out.end = {end};
  out.cause = cause;
  out.op = op;
  return out;
}

double peak(const std::vector<LoadStretch>& load) {
  double most = 0;
  for (const LoadStretch& of : load) most = std::max(most, of.gb_s);
  return most;
}

double bytes_of(const std::vector<LoadStretch>& load) {
  double bytes = 0;
  for (const LoadStretch& of : load) bytes += of.gb_s * static_cast<double>((of.end - of.begin).count);
  return bytes;
}

// What the fullest window holds that must be moved inside of it, in bytes a nanosecond: no way has a lower peak.
double fullest_window(const std::vector<LinkTransfer>& transfers) {
  double most = 0;
  for (const LinkTransfer& first : transfers)
    for (const LinkTransfer& last : transfers) {
      if (last.end <= first.begin) continue;
      double bytes = 0;
      for (const LinkTransfer& of : transfers)
        if (of.begin >= first.begin && of.end <= last.end) bytes += of.bytes;
      most = std::max(most, bytes / static_cast<double>((last.end - first.begin).count));
    }
  return most;
}

// Not within a stretch of time in which none of the transfers is there.
bool inside(const LoadStretch& stretch, const std::vector<LinkTransfer>& transfers) {
  return std::any_of(transfers.begin(), transfers.end(),
                     [&](const LinkTransfer& of) { return of.begin <= stretch.begin && stretch.end <= of.end; });
}

}  // namespace

TEST_CASE("transfers side by side add up, and rounding leaves nothing between them") {
  // 30, 0.1 and 0.2 GB/s: their sum and difference in binary is not 0.
  const auto load = load_over_time(link_of({{{0}, {100}, 3000, 0},
                                            {{50}, {200}, 15, 1},
                                            {{60}, {200}, 28, 2},
                                            {{300}, {400}, 500, 3},
                                            {{400}, {500}, 700, 4}}));
  REQUIRE(load.size() == 6);
  CHECK(load[0].begin.count == 0);
  CHECK(load[0].gb_s == 30);
  CHECK(load[1].gb_s == 30.1);
  CHECK(load[2].end.count == 100);
  CHECK(load[3].gb_s == Approx(0.3).epsilon(1e-9));
  CHECK(load[3].end.count == 200);
  CHECK(load[4].begin.count == 300);  // nothing between 200 and 300
  CHECK(load[4].gb_s == 5);
  CHECK(load[5].gb_s == 7);
}

TEST_CASE("what is too much for the link is moved to when there was room for it, and no byte is lost") {
  // 80 GB/s each, over 100 together: the first has the link alone for its first half, the second for its last.
  const LinkLoad both = link_of({{{0}, {200}, 16000, 0}, {{100}, {300}, 16000, 1}}, 110);
  const auto load = load_over_time(both);
  REQUIRE(load.size() == 3);
  double bytes = 0;
  for (const LoadStretch& of : load) {
    CHECK(of.gb_s <= 110 * (1 + 1e-6));
    bytes += of.gb_s * static_cast<double>((of.end - of.begin).count);
  }
  CHECK(bytes == Approx(32000));
  CHECK(load[0].gb_s == Approx(105));
  CHECK(load[1].gb_s == Approx(110));
  // Where there is no room for all, 2000 of the first and 9000 of the second go on top of what fits.
  const auto more = load_over_time(link_of({{{0}, {200}, 16000, 0}, {{100}, {300}, 16000, 1}}, 70));
  REQUIRE(more.size() == 3);
  CHECK(more[0].gb_s == Approx(70 + 10));
  CHECK(more[1].gb_s == Approx(70 + 10 + 45));
  CHECK(more[2].gb_s == Approx(70 + 45));
  // The third, which has nowhere to go, is made room for by the other two.
  const auto short_one =
      load_over_time(link_of({{{0}, {200}, 6000, 0}, {{0}, {200}, 6000, 1}, {{100}, {200}, 6000, 2}}, 100));
  REQUIRE(short_one.size() == 2);
  CHECK(short_one[0].gb_s == Approx(80));
  CHECK(short_one[1].gb_s == Approx(100));
}

TEST_CASE("a transfer makes room for one that makes room for a third") {
  const auto three = load_over_time(link_of({{{12}, {22}, 8.4, 0}, {{13}, {29}, 7.2, 1}, {{17}, {18}, 1.0, 2}}, 1));
  CHECK(peak(three) <= 1 + 1e-6);
  CHECK(bytes_of(three) == Approx(16.6));
  const auto chain = load_over_time(link_of({{{0}, {100}, 80, 0}, {{10}, {150}, 50, 1}, {{40}, {50}, 9, 2}}, 1));
  CHECK(peak(chain) <= 1 + 1e-6);
  CHECK(bytes_of(chain) == Approx(139));
  // One that does not fit beside them, and what has nothing to do with it, stay apart.
  const auto apart = load_over_time(link_of(
      {{{0}, {100}, 80, 0}, {{10}, {150}, 50, 1}, {{40}, {50}, 9, 2}, {{150}, {160}, 20, 3}, {{160}, {170}, 5, 4}}, 1));
  REQUIRE(apart.size() >= 2);
  CHECK(apart.back().gb_s == 0.5);
  CHECK(apart[apart.size() - 2].gb_s == Approx(2));
}

TEST_CASE("a rate is above what the link carries only where a window holds more than it") {
  const bool holds = rc::check("feasible in every window: at most that; no byte lost or moved out of its time", [] {
    std::vector<LinkTransfer> transfers(*rc::gen::inRange<std::size_t>(1, 12));
    double bytes = 0;
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      const auto begin = *rc::gen::inRange<std::int64_t>(0, 60);
      transfers[i] = {{begin},
                      {begin + *rc::gen::inRange<std::int64_t>(1, 40)},
                      static_cast<double>(*rc::gen::inRange(1, 400)) / 10,
                      i};
      bytes += transfers[i].bytes;
    }
    std::stable_sort(transfers.begin(), transfers.end(),
                     [](const LinkTransfer& a, const LinkTransfer& b) { return a.begin < b.begin; });
    const double fullest = fullest_window(transfers);
    // Just enough, ample, and too little.
    for (const double share : {1.0, 1.3, 0.6}) {
      const double most = fullest * share;
      const auto load = load_over_time(link_of(transfers, most));
      RC_ASSERT(std::abs(bytes_of(load) - bytes) <= 1e-6 * bytes);
      for (const LoadStretch& of : load) RC_ASSERT(inside(of, transfers));
      if (share >= 1)
        RC_ASSERT(peak(load) <= most * (1 + 1e-6));
      else
        RC_ASSERT(peak(load) >= fullest * (1 - 1e-6));
    }
  });
  CHECK(holds);
}

TEST_CASE("what takes no time or moves nothing is in no stretch") {
  CHECK(load_over_time(link_of({{{5}, {5}, 100, 0}, {{7}, {9}, 0, 1}, {{9}, {8}, 10, 2}})).empty());
  CHECK(load_over_time(link_of({})).empty());
}

TEST_CASE("a link's use counts what lies in the step") {
  TimeExplanation step;
  step.begin = {100};
  step.end = {300};
  // Half of the first is before the step; the second, beside it, fills the link from 150 on.
  const LinkLoad link = link_of({{{50}, {150}, 5000, 0}, {{140}, {160}, 1900, 1}, {{290}, {310}, 200, 2}}, 150);
  const LinkUse use = link_use(link, step);
  CHECK(use.bytes == 2500 + 1900 + 100);
  CHECK(use.mean_gb_s == 22.5);
  CHECK(use.peak_gb_s == 145);  // two at once
  CHECK(use.busy.count == 60 + 10);
  CHECK(use.full.count == 10);
  CHECK(use.waited.count == 0);
}

TEST_CASE("waiting counts where a collective of the link is waited for, and apart where nothing moves") {
  TimeExplanation step;
  step.begin = {0};
  step.end = {1000};
  step.parts = {part(0, 100, IdleCause::late_rank, 0),  // nothing moves before 80
                part(100, 150, IdleCause::first_gather, 0),
                part(200, 300, IdleCause::contention, 7),  // of another link
                part(300, 400, IdleCause::issuing, 0),     // the host, not communication
                part(500, 600, IdleCause::prefetch, 1)};   // moves from 520 to 540 and from 590 on
  const LinkUse use = link_use(link_of({{{80}, {150}, 700, 0}, {{520}, {540}, 20, 1}, {{590}, {700}, 110, 1}}), step);
  CHECK(use.waited.count == 100 + 50 + 100);
  CHECK(use.waited_idle.count == 80 + 70);
}

// Rates over time, and a link's use of a step, by hand.

#include "core/link_load/link_load.hpp"

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
  // Where there is no room it is shown as it is.
  const auto more = load_over_time(link_of({{{0}, {200}, 16000, 0}, {{100}, {300}, 16000, 1}}, 70));
  CHECK(more[1].gb_s == Approx(160));
  // The third, which has nowhere to go, is made room for by the other two.
  const auto short_one =
      load_over_time(link_of({{{0}, {200}, 6000, 0}, {{0}, {200}, 6000, 1}, {{100}, {200}, 6000, 2}}, 100));
  REQUIRE(short_one.size() == 2);
  CHECK(short_one[0].gb_s == Approx(80));
  CHECK(short_one[1].gb_s == Approx(100));
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

// The whole picture: golden bytes, well-formed XML, determinism, sizes, refusals.
//
// FORESHARD_UPDATE_GOLDEN=1 writes the golden file anew.

#include "viz/svg/timeline.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/catch.hpp"
#include "tests/viz/svg/drawn_runs.hpp"

using namespace foreshard;
using namespace foreshard::viz;

namespace {

constexpr const char* kGolden = "tests/viz/svg/golden/small.svg";

/// The first thing that is wrong with an XML document of elements, attributes, text and entities; empty: nothing.
std::string xml_fault(std::string_view xml) {
  std::vector<std::string> open;
  std::size_t at = 0;
  bool rooted = false;
  const auto good_text = [](std::string_view text) {
    for (std::size_t i = text.find('&'); i != std::string_view::npos; i = text.find('&', i + 1)) {
      const std::string_view entity = text.substr(i, text.find(';', i) - i);
      if (entity != "&amp" && entity != "&lt" && entity != "&gt" && entity != "&quot" && entity != "&#39") return false;
    }
    return text.find('>') == std::string_view::npos;
  };
  while (at < xml.size()) {
    const std::size_t tag = xml.find('<', at);
    if (!good_text(xml.substr(at, tag - at))) return "text: " + std::string(xml.substr(at, 40));
    if (tag == std::string_view::npos) break;
    const std::size_t end = xml.find('>', tag);
    if (end == std::string_view::npos) return "tag without end";
    std::string_view body = xml.substr(tag + 1, end - tag - 1);
    at = end + 1;
    if (body.starts_with('/')) {
      if (open.empty() || open.back() != body.substr(1)) return "closes " + std::string(body);
      open.pop_back();
      continue;
    }
    const bool closes_itself = body.ends_with('/');
    if (closes_itself) body.remove_suffix(1);
    if (std::count(body.begin(), body.end(), '"') % 2 != 0 || body.find('<') != std::string_view::npos)
      return "attributes: " + std::string(body);
    if (open.empty() && rooted) return "two roots";
    rooted = true;
    if (!closes_itself) open.emplace_back(body.substr(0, body.find(' ')));
  }
  return open.empty() ? "" : "left open: " + open.back();
}

std::string draw(const Run& run, const TimelineOptions& options = {}) {
  const auto svg = draw_timeline(run, options);
  INFO((svg ? "" : svg.error().text()));
  REQUIRE(svg);
  CHECK(xml_fault(*svg) == "");
  return *svg;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// As many ops and blocks as a step of 48 layers of eager code has, all of them small.
Run big_run() {
  Run run = small_run();
  run.device_ops.clear();
  MemoryScript memory(run);
  std::vector<BlockId> live;
  for (int i = 0; i < 30000; ++i) {
    const Nanoseconds at{10000000 + i * 10000LL};
    const auto kind = static_cast<KernelClass>(i * 7 % 5);
    run.device_ops.push_back(
        kernel(StreamId{static_cast<std::uint32_t>(i % 4)}, at, at, at + Nanoseconds{3000 + i % 11 * 600}, kind));
    live.push_back(memory.alloc(at, kMiB * static_cast<Bytes>(1 + i % 40), static_cast<MemoryCategory>(i % 14)));
    if (live.size() > 400) {
      memory.free(at, live[live.size() - 300]);
      live.erase(live.end() - 300);
    }
  }
  run.steps[1].end = run.device_ops.back().end;
  return run;
}

}  // namespace

TEST_CASE("a small run is drawn as it was") {
  const std::string svg = draw(small_run());
  if (std::getenv("FORESHARD_UPDATE_GOLDEN") != nullptr) std::ofstream(kGolden, std::ios::binary) << svg;
  std::ifstream file(kGolden, std::ios::binary);
  const std::string golden(std::istreambuf_iterator<char>(file), {});
  const auto differ = std::mismatch(svg.begin(), svg.end(), golden.begin(), golden.end());
  INFO("first difference: " << std::string(differ.first, std::min(svg.end(), differ.first + 80)));
  CHECK((svg == golden));
}

TEST_CASE("the picture names the run, its settings, its units and its results") {
  const std::string svg = draw(small_run());
  for (const char* part :
       {"small &lt;run&gt; &amp; more (planned)", "step 1", "4 × NVIDIA H200", "forward-prefetch 2", "memory (GiB)",
        "(ms)", "step 10.00 ms", "allocated 5.00 GiB", "active 6.00 GiB", "reserved 8.00 GiB", "5.00 GiB at 2.0 ms",
        ">backward", "all-gather copy-in", "layers.0", "user 1", "parameters (shards)"}) {
    INFO(part);
    CHECK(has(svg, part));
  }
}

TEST_CASE("the same run and options give the same bytes, other options give others") {
  CHECK((draw(small_run()) == draw(small_run())));
  TimelineOptions dark;
  dark.theme = Theme::dark;
  CHECK((draw(small_run()) != draw(small_run(), dark)));
  TimelineOptions all;
  all.window.all = true;
  CHECK(has(draw(small_run(), all), "steps 0–1"));
}

TEST_CASE("a large step stays a small file at any width") {
  const Run run = big_run();
  CHECK(draw(run).size() < 1000 * 1000);
  TimelineOptions narrow;
  narrow.width = kLeastWidth;
  CHECK(draw(run, narrow).size() < 600 * 1000);
}

TEST_CASE("height is what was asked for, and refused where nothing fits") {
  TimelineOptions options;
  options.height = 700;
  CHECK(has(draw(small_run(), options), "height=\"700\""));
  options.height = 300;
  const auto low = draw_timeline(small_run(), options);
  REQUIRE_FALSE(low);
  CHECK(low.error().kind == ErrorKind::usage);
  options = {};
  options.width = 100;
  CHECK_FALSE(draw_timeline(small_run(), options));
}

TEST_CASE("links have rows under the streams, as high as what they carry") {
  TimelineOptions options;
  options.width = 1420;  // a plot of 1,000 pixels
  const std::string without = draw(small_run(), options);
  CHECK_FALSE(has(without, "NVLink"));
  const Nanoseconds begin = choose_window(small_run(), {})->lanes->origin;
  options.links.machine = "h200";
  options.links.links = {{LinkClass::nvlink, 400, {{begin, begin + Nanoseconds{1'000'000}, 2e8, 0}}},
                         {LinkClass::leaf, 24, {{begin, begin + Nanoseconds{1'000'000}, 3e7, 0}}}};
  const std::string with = draw(small_run(), options);
  CHECK(has(with, "NVLink, GB/s"));
  CHECK(has(with, "carries 400.0"));
  CHECK(has(with, "peak 200.0"));
  CHECK(has(with, "leaf uplink: at most 30.0 GB/s here; it carries 24.0"));  // more than it carries is shown as it is
  CHECK(has(with, "rates of h200"));
  const auto height = [](const std::string& svg) { return std::stod(svg.substr(svg.find("height=") + 8)); };
  CHECK(height(with) == height(without) + 2 * 46);
}

TEST_CASE("steps and times that are not there are refused with those that are") {
  TimelineOptions options;
  options.window.step = 7;
  const auto missing = draw_timeline(small_run(), options);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().hint == "it has 0, 1");
  options = {};
  options.window.from = us(500000);
  CHECK_FALSE(draw_timeline(small_run(), options));
  CHECK(draw_timeline(Run{}, {}).error().kind == ErrorKind::input);
}

TEST_CASE("two recordings are laid over each other, and the picture says so") {
  Run run = small_run();
  run.info.kind = RunKind::imported;
  const std::vector<StepRecord> steps = run.steps;
  for (StepRecord& step : run.steps) step.recording = Recording::snapshot;
  StepRecord traced = steps[0];
  traced.recording = Recording::trace;
  run.steps.push_back(traced);
  for (PhaseRecord& phase : run.phases) phase.recording = Recording::snapshot;
  const std::string svg = draw(run);
  CHECK(has(svg, "memory of step 1, lanes of step 0"));
  CHECK(has(svg, "two recordings"));
}

TEST_CASE("halves of a run are drawn alone") {
  Run memory = small_run();
  memory.device_ops.clear();
  CHECK(has(draw(memory), "memory (GiB)"));
  Run lanes = small_run();
  lanes.allocator.clear();
  lanes.blocks.clear();
  const std::string svg = draw(lanes);
  CHECK(has(svg, "reduce-scatter"));
  CHECK_FALSE(has(svg, "memory (GiB)"));
}

TEST_CASE("a step in which memory ran out is the one that is shown") {
  Run run = small_run();
  MemoryScript memory(run);
  memory.alloc(us(20500), kGiB, MemoryCategory::activations);
  memory.segment(AllocatorAction::oom, us(21000), 3 * kGiB);
  const std::string svg = draw(run);
  CHECK(has(svg, "step 2 (out of memory)"));
  CHECK(has(svg, "out of memory at 1.00 ms: 3.00 GiB could not be had"));
}

// Steps that are known, against a process that knows none: to it every step is a program of its own.
#include "sim/forecast/known_steps.hpp"

#include <deque>

#include "sim/forecast/lengths.hpp"
#include "tests/catch.hpp"
#include "tests/sim/forecast/generated_model.hpp"
#include "tests/sim/forecast/hand_programs.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using namespace foreshard::sim::test;

namespace {

constexpr std::size_t kSteps = 400;

/// Lengths of a histogram; one that was never seen comes late, and the cache is emptied now and then.
struct Question {
  std::string alloc_conf;
  std::optional<Bytes> limit = {};
  std::size_t empty_cache_every = 0;
};

/// The seed's uses in `process`, where `known` says whether a length's steps are one program.
std::vector<StepUse> uses(const ProgramSource& programs, const Question& question, AllocatorProcess& process,
                          bool known) {
  const Lengths lengths = parse_distribution("128:3,256:2,512:1").value();
  std::deque<AllocationProgram> copies;  // whose addresses stay
  std::vector<StepUse> out;
  for (std::size_t step = 0; step < kSteps && !process.out_of_memory(); ++step) {
    const LengthPrograms& both = programs.at(step == 300 ? 384 : lengths.at(7, step));
    const AllocationProgram& program = step == 0 ? *both.first : both.later;
    if (!process.run(known ? program : copies.emplace_back(program))) break;
    out.push_back(process.use());
    if (question.empty_cache_every > 0 && (step + 1) % question.empty_cache_every == 0) process.empty_cache();
  }
  return out;
}

std::vector<Bytes> numbers(const std::vector<StepUse>& uses) {
  std::vector<Bytes> out;
  for (const StepUse& use : uses)
    out.insert(out.end(), {use.reserved, use.peak_reserved, use.peak_allocated, static_cast<Bytes>(use.retries),
                           static_cast<Bytes>(use.released)});
  return out;
}

}  // namespace

TEST_CASE("a known step is what it would be if it were simulated again", "[forecast]") {
  const MachineProfile machine = builtin_profile("h200").value();
  GeneratedModel model("llama-tiny", machine);
  Settings settings;
  settings.gpus = 4;
  settings.batch = 1;
  settings.param_dtype = DType::bfloat16;
  const auto programs = model_programs(model, settings);
  REQUIRE(programs->prepare({128, 256, 384, 512}, 2));
  for (const Question& question :
       {Question{""}, Question{"expandable_segments:True"}, Question{"max_split_size_mb:20"}, Question{"", {}, 90},
        Question{"", 1230 * kMiB}, Question{"garbage_collection_threshold:0.8", 1300 * kMiB}}) {
    INFO(question.alloc_conf << ", limit " << question.limit.value_or(0));
    const ProcessOptions options = process(8 * kGiB, question.limit, question.alloc_conf);
    AllocatorProcess knowing(programs->start(), options);
    AllocatorProcess simulating(programs->start(), options);
    const std::vector<Bytes> known = numbers(uses(*programs, question, knowing, true));
    CHECK(known == numbers(uses(*programs, question, simulating, false)));
    CHECK(known.size() == 5 * kSteps);
    if (question.limit || question.empty_cache_every > 0) CHECK(knowing.driver_frees() > 0);
    CHECK(knowing.driver_frees() == simulating.driver_frees());
    CHECK(knowing.growth().size() == simulating.growth().size());
  }
}

TEST_CASE("loops of known steps are left out of the way that a process is led", "[forecast]") {
  const AllocationProgram a, b, c;
  const auto state = [](std::uint64_t number) { return LayoutDigest{number, 0}; };
  KnownSteps steps;
  steps.begin_at(state(0));
  CHECK(steps.find(a) == nullptr);
  steps.add(a, state(1), {});
  steps.add(b, state(2), {});
  steps.add(c, state(1), {});
  steps.add(a, state(0), {});
  const auto skip = [&](const AllocationProgram& program) {
    const KnownSteps::Step* step = steps.find(program);
    REQUIRE(step != nullptr);
    steps.skip(program, *step);
  };
  for (const AllocationProgram* program : {&a, &b, &c, &b, &c, &b}) skip(*program);
  CHECK(steps.take_way() == std::vector{&a, &b});
  CHECK(steps.is_here(state(2)));
  skip(c);
  skip(b);
  CHECK(steps.take_way().empty());
}

#include "core/workload/model/sections.hpp"

#include <algorithm>

#include "core/workload/model/generate.hpp"
#include "core/workload/model/presets.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

TEST_CASE("multi-tensor launches end at 320 blocks or when their list of tensors is full") {
  using model::multi_tensor_launches;
  constexpr std::uint64_t kFull = 320 * 65536;
  CHECK(multi_tensor_launches({kFull}, 2).size() == 1);
  CHECK(multi_tensor_launches({kFull + 1}, 2) == std::vector<std::uint64_t>{kFull, 1});
  CHECK(multi_tensor_launches(std::vector<std::uint64_t>(65, 1), 2).size() == 2);  // 64 tensors in lists of two
  CHECK(multi_tensor_launches(std::vector<std::uint64_t>(110, 1), 1).size() == 1);
  CHECK(multi_tensor_launches({0, 0}, 1).empty());
}

TEST_CASE("llama-1b on four GPUs launches as recorded: 18 times each of Adam's seven ops, 7 casts of the root") {
  Settings settings;
  settings.gpus = 4;
  settings.param_dtype = DType::bfloat16;
  settings.reduce_dtype = DType::float32;
  const auto w = generate(*preset("llama-1b"), settings, {}, 132);
  REQUIRE(w);
  const auto section = [&](Section which, std::uint32_t unit) {
    return *std::find_if(w->sections.begin(), w->sections.end(),
                         [&](const SectionCost& c) { return c.section == which && c.unit == UnitId{unit}; });
  };
  CHECK(section(Section::optimizer, 0).items.size() == 126);
  const SectionCost gather = section(Section::all_gather, 0);
  CHECK(std::count_if(gather.items.begin(), gather.items.end(),
                      [](const SectionItem& i) { return i.role == SectionRole::cast; }) == 7);
  CHECK(section(Section::copy_out, 1).items.front().bytes == 30008);  // address tables as recorded
  CHECK(section(Section::reduce, 1).items.front().bytes == 238032);
  Bytes adam = 0;
  for (const SectionItem& item : section(Section::optimizer, 0).items) adam += item.bytes;
  CHECK(adam == 72 * std::uint64_t{374'620'672});  // 72 bytes an element of this rank's shards
}

}  // namespace
}  // namespace foreshard

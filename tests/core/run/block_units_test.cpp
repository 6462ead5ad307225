// Blocks of modules are of the unit that the module is in.
#include "core/run/block_units.hpp"

#include "tests/catch.hpp"

using namespace foreshard;

TEST_CASE("a module around several units is the root's where that has a parameter there, else none's") {
  Run run;
  run.units = {{"", {}}, {"m.layers.0", {}}, {"m.layers.2", {}}};  // two blocks a unit
  const std::vector<std::vector<const char*>> names{
      {"m.norm.weight"}, {"m.layers.0.w", "m.layers.1.w"}, {"m.layers.2.w", "m.layers.3.w"}};
  for (std::size_t k = 0; k < names.size(); ++k)
    for (const char* name : names[k]) run.units[k].parameters.emplace_back().name = name;
  for (const char* module : {"m", "m.layers", "m.layers.1", "m.layers.3"}) {
    BlockRecord record;
    record.module = run.labels.intern(module);
    run.blocks.push_back(record);
  }
  CHECK(block_units(run) == std::vector<UnitId>{UnitId{0}, UnitId{}, UnitId{1}, UnitId{2}});
}

TEST_CASE("a block is of its own unit, of its parameter's, or of its module's") {
  Run run;
  run.units = {{"", {}}, {"layers.0", {}}, {"layers.1", {}}};
  run.units[0].parameters.resize(1);
  run.units[0].parameters[0].name = "tok.weight";
  run.units[2].parameters.resize(1);
  run.units[2].parameters[0].name = "layers.1.attn.wq.weight";
  const auto block = [&](const char* module) {
    BlockRecord record;
    if (module != nullptr) record.module = run.labels.intern(module);
    run.blocks.push_back(record);
    return run.blocks.size() - 1;
  };
  const std::size_t root = block(""), table = block("tok"), attention = block("layers.1.attn"),
                    layer = block("layers.0");
  const std::size_t longer = block("layers.10.attn"), loss = block("(loss)"), unknown = block(nullptr);
  const std::size_t gathered = block("layers.0"), state = block(nullptr), workspace = block("layers.0");
  run.blocks[gathered].unit = UnitId{2};
  run.blocks[state].parameter = ParameterId{1};
  run.blocks[workspace].category = MemoryCategory::workspaces;
  const std::vector<UnitId> units = block_units(run);
  CHECK(units[root] == UnitId{0});
  CHECK(units[table] == UnitId{0});
  CHECK(units[attention] == UnitId{2});
  CHECK(units[layer] == UnitId{1});
  CHECK_FALSE(units[longer].valid());
  CHECK_FALSE(units[loss].valid());
  CHECK_FALSE(units[unknown].valid());
  CHECK(units[gathered] == UnitId{2});
  CHECK(units[state] == UnitId{2});
  CHECK_FALSE(units[workspace].valid());
}

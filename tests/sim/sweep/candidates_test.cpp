// What is tried, and how a change is written.
#include "sim/sweep/candidates.hpp"

#include <algorithm>
#include <vector>

#include "core/settings/python_classes.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/sweep/wrapped_modules.hpp"
#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::sim;

namespace {

Settings four_tuned_gpus() {
  Settings settings;
  settings.gpus = 4;
  settings.unshard_async = true;
  settings.forward_prefetch = 2;
  settings.backward_prefetch = 1;
  settings.release = Release::record_stream;
  return settings;
}

bool has(const std::vector<Candidate>& list, const std::string& setting) {
  return std::any_of(list.begin(), list.end(), [&](const Candidate& c) { return c.setting == setting; });
}

}  // namespace

TEST_CASE("the remedies of pytorch#147168 are tried where record_stream is", "[remedies]") {
  const auto list = candidates(four_tuned_gpus());
  REQUIRE_FALSE(list.empty());
  CHECK(list.front().setting == "--release stash");
  CHECK(has(list, "--no-unshard-async --release stash"));
  CHECK(has(list, "--no-unshard-async --release stash --gather-alloc compute"));
  CHECK(has(list, "--alloc-conf expandable_segments:True"));
  CHECK(has(list, "--forward-prefetch 1"));
  CHECK_FALSE(has(candidates(Settings{}), "--release stash"));
}

TEST_CASE("candidates differ from the run and from one another, and their options give their settings", "[remedies]") {
  Settings other = four_tuned_gpus();
  other.release = Release::automatic;
  other.reduce_scatter_release = Release::record_stream;
  other.reshard_after_forward.kind = Reshard::Kind::never;
  other.units_per_group = 2;
  other.alloc_conf = "max_split_size_mb:100";
  Settings graph;
  graph.cuda_graph = CudaGraph{};
  CHECK(has(candidates(graph), "--cuda-graph none"));
  for (const Settings& base : {Settings{}, four_tuned_gpus(), other, graph}) {
    const auto list = candidates(base);
    for (std::size_t i = 0; i < list.size(); ++i) {
      INFO(list[i].setting);
      CHECK(list[i].settings != base);
      CHECK(check(list[i].settings));
      CHECK_FALSE(list[i].reason.empty());
      CHECK_FALSE((list[i].pytorch.empty() && pytorch_text(base, list[i].settings).empty()));
      for (std::size_t k = 0; k < i; ++k) CHECK(list[k].settings != list[i].settings);
    }
  }
}

TEST_CASE("a change as options and as Python", "[remedies]") {
  Settings from = four_tuned_gpus();
  Settings to = from;
  to.unshard_async = false;
  to.optimizer = Optimizer::adam_fused;
  to.alloc_conf = "expandable_segments:True";
  CHECK(setting_text(from, to) == "--no-unshard-async --optimizer adam-fused --alloc-conf expandable_segments:True");
  CHECK(setting_text(from, from).empty());
  CHECK(pytorch_text(from, to) ==
        "PYTORCH_ALLOC_CONF=expandable_segments:True\n"
        "optimizer = torch.optim.AdamW(model.parameters(), fused=True)  # or Adam; its other arguments stay\n"
        "# leave out: model._set_unshard_async_op(True)");
  to = from;
  from.forward_prefetch = from.backward_prefetch = 1;
  to.forward_prefetch = 1;
  to.backward_prefetch = 2;
  CHECK(
      pytorch_text(from, to).starts_with("blocks = list(model.layers)\n"
                                         "for i, block in enumerate(blocks):\n"
                                         "    block.set_modules_to_backward_prefetch(blocks[max(0, i - 2):i][::-1])"));
  to.alloc_conf = "expandable_segments:True,max_split_size_mb:100";
  CHECK(setting_text(from, to).ends_with("--alloc-conf expandable_segments:True,max_split_size_mb:100"));
}

TEST_CASE("a class is shown whole, also where another has some of its lines", "[remedies]") {
  Settings from = four_tuned_gpus();
  from.all_gather = Transport::symmetric;
  from.reduce_scatter = Transport::nccl;
  Settings to = from;
  to.reduce_scatter = Transport::symmetric;
  const std::string text = pytorch_text(from, to);
  CHECK(text.find(kSymmetricReduceScatter.substr(kSymmetricReduceScatter.find("class "))) != std::string::npos);
  CHECK(text.find("import ReduceScatter\n") != std::string::npos);
  CHECK(text.find("class SymmetricAllGather") == std::string::npos);
}

TEST_CASE("blocks go by the name that their units have") {
  for (const auto& [prefix, list] : {std::pair<std::string, std::string>{"lm.transformer.h.", "model.lm.transformer.h"},
                                     {"lm.model.layers.", "model.lm.model.layers"}}) {
    Workload workload;
    workload.units = {{"", {}}, {prefix + "0, " + prefix + "1", {}}, {prefix + "2", {}}};
    OneWorkload source(std::make_shared<const Workload>(std::move(workload)));
    CHECK(wrapped_modules(source, {}).blocks == std::vector{list});
  }
  Workload two;
  two.units = {{"", {}}, {"encoder.block.0", {}}, {"encoder.block.1", {}}, {"decoder.block.0", {}}};
  OneWorkload both(std::make_shared<const Workload>(std::move(two)));
  CHECK(wrapped_modules(both, {}).blocks == std::vector<std::string>{"model.encoder.block", "model.decoder.block"});
  OneWorkload unknown(std::make_shared<const Workload>());
  CHECK(wrapped_modules(unknown, {}).blocks == ModuleNames{}.blocks);
}

TEST_CASE("units inside of blocks, and outside of them, are wrapped as they are") {
  Workload workload;
  workload.units = {{"", {}},
                    {"tok", {}},
                    {"layers.0", {}},
                    {"layers.0.wq", {}},
                    {"layers.0.w1, layers.0.w3", {}},
                    {"layers.1", {}},
                    {"layers.1.wq", {}},
                    {"layers.1.w1, layers.1.w3", {}},
                    {"norm, head", {}}};
  const ModuleNames alike = wrapped_modules(workload, {});
  using Units = std::vector<std::vector<std::string>>;
  CHECK(alike.blocks == std::vector<std::string>{"model.layers"});
  CHECK(alike.inside == Units{{"wq"}, {"w1", "w3"}});
  CHECK(alike.outside == Units{{"tok"}, {"norm", "head"}});
  CHECK((alike.wraps_blocks && alike.units.empty()));
  const std::string code = python_lines({}, alike).text();
  CHECK(code.find("for unit in ((\"tok\",), (\"norm\", \"head\"),):\n"
                  "    modules = [model.get_submodule(name) for name in unit]\n"
                  "    fully_shard(modules, mesh=mesh, reshard_after_forward=True)\n"
                  "for block in blocks:\n"
                  "    for unit in ((\"wq\",), (\"w1\", \"w3\"),):\n"
                  "        modules = [block.get_submodule(name) for name in unit]\n"
                  "        fully_shard(modules, mesh=mesh, reshard_after_forward=True)\n"
                  "    fully_shard(block, mesh=mesh, reshard_after_forward=True)\n") != std::string::npos);
  workload.units.erase(workload.units.begin() + 3);  // the first block has another one
  const ModuleNames unlike = wrapped_modules(workload, {});
  CHECK((unlike.inside.empty() && unlike.outside.empty()));
  CHECK(unlike.units.size() == 7);
  CHECK(unlike.units.front() == std::vector<std::string>{"layers.0.w1", "layers.0.w3"});  // before its block
  Workload around;
  around.units = {{"", {}}, {"model", {}}, {"model.layers.0", {}}, {"model.layers.1", {}}};
  CHECK(wrapped_modules(around, {}).units == Units{{"model.layers.0"}, {"model.layers.1"}, {"model"}});
}

#include "cli/options/setting_options.hpp"

#include <algorithm>

#include "cli/options/option_set.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/sweep/candidates.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard;
using namespace foreshard::cli;

namespace {

Result<Settings> parsed(const std::vector<std::string>& arguments, const Settings& base = {}) {
  OptionSet set("", "foreshard");
  SettingOptions options;
  options.add_to(set);
  FORESHARD_TRY(set.parse(arguments));
  return options.apply(base);
}

/// As a shell splits them: blanks part words, single quotes keep them together.
std::vector<std::string> shell_words(const std::string& text) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : text) {
    if (c == '\'')
      quoted = !quoted;
    else if (c == ' ' && !quoted)
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

}  // namespace

TEST_CASE("what explain proposes, plan takes") {
  Settings recorded;
  recorded.gpus = 4;
  recorded.unshard_async = true;
  recorded.offload = true;
  recorded.release = Release::record_stream;
  recorded.alloc_conf = "max_split_size_mb:100";
  for (const Settings& base : {Settings{}, recorded})
    for (const sim::Candidate& candidate : sim::candidates(base)) {
      CAPTURE(candidate.setting);
      const auto settings = parsed(shell_words(candidate.setting), base);
      REQUIRE(settings);
      CHECK(*settings == candidate.settings);
    }
}

TEST_CASE("every setting is an option, and none given changes nothing") {
  OptionSet set("", "foreshard");
  SettingOptions options;
  options.add_to(set);
  std::vector<std::string> names;
  for (const OptionFacts& option : set.options()) names.insert(names.end(), option.names.begin(), option.names.end());
  for (const SettingOption& setting : setting_table())
    CHECK(std::find(names.begin(), names.end(), setting.option()) != names.end());
  CHECK(parsed({}).value() == Settings{});
}

TEST_CASE("options set options on top of a source's settings") {
  Settings base;
  base.gpus = 8;
  base.unshard_async = true;
  const auto settings = parsed({"--forward-prefetch", "2", "--no-unshard-async", "--offload", "--reshard-after-forward",
                                "4", "--release=all-gather=stash,reduce-scatter=record-stream"},
                               base);
  REQUIRE(settings);
  CHECK(settings->gpus == 8);
  CHECK(settings->forward_prefetch == 2u);
  CHECK_FALSE(settings->unshard_async);
  CHECK(settings->offload);
  CHECK(settings->reshard_after_forward == Reshard{Reshard::Kind::group, 4});
  CHECK(settings->reduce_scatter_release == Release::record_stream);
}

TEST_CASE("an option of one value is given once; repeatable ones add up") {
  const auto twice = parsed({"--gpus", "2", "--gpus", "4"});
  REQUIRE_FALSE(twice);
  CHECK(twice.error().what == "--gpus is given as 2 and as 4");
  CHECK(parsed({"--offload", "--no-offload"}).error().what == "--offload and --no-offload are both given");
  CHECK(parsed({"--offload", "--offload"})->offload);
  const auto settings =
      parsed({"--gpus", "4", "--reshard-of-unit", "layers.0=false", "--reshard-of-unit", "layers.1=2"});
  REQUIRE(settings);
  CHECK(settings->gpus == 4);
  CHECK(settings->reshard_of_unit.size() == 2);
}

TEST_CASE("wrong values name the key; contradictions are found") {
  const auto word = parsed({"--all-gather", "ncll"});
  REQUIRE_FALSE(word);
  CHECK(word.error().kind == ErrorKind::usage);
  CHECK(word.error().text().find("did you mean 'nccl'?") != std::string::npos);
  CHECK_FALSE(parsed({"--gpus", "4", "--replicate", "3"}));
}

TEST_CASE("prefetch lists come from a file") {
  const foreshard::test::TemporaryFolder folder;
  const std::string path = folder.write("lists.json", R"({"forward": {"layers.0": ["layers.2"]}})");
  const auto settings = parsed({"--prefetch-lists", path});
  REQUIRE(settings);
  CHECK(settings->prefetch_lists.forward.at("layers.0") == std::vector<std::string>{"layers.2"});
  folder.write("lists.json", "nonsense");
  const auto wrong = parsed({"--prefetch-lists", path});
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().kind == foreshard::ErrorKind::input);
  CHECK(wrong.error().where == path + ", line 1, column 2");
  CHECK_FALSE(parsed({"--prefetch-lists", "/nonexistent/file"}));
}

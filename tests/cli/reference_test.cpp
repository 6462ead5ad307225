// Completion scripts and man pages, as a shell and groff take them.

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/reference/reference_verbs.hpp"
#include "core/settings/settings_table.hpp"
#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"

using namespace foreshard;
using namespace foreshard::cli;

namespace {

/// A folder that goes with its test.
struct ScratchFolder {
  ScratchFolder() {
    std::string made = (std::filesystem::temp_directory_path() / "foreshard-XXXXXX").string();
    REQUIRE(mkdtemp(made.data()) != nullptr);
    path = made;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) out.append(buffer.data(), n);
  pclose(pipe);
  return out;
}

/// What bash offers for the last of `words`, one a line.
std::string completed(const std::string& words) {
  const ScratchFolder folder;
  const std::string script = (folder.path / "foreshard.bash").string();
  std::ofstream(script) << run_cli({"completion", "bash"}).out;
  return output_of("bash -c 'source " + script + "; COMP_WORDS=(" + words +
                   "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _foreshard; printf \"%s\\n\" \"${COMPREPLY[@]}\"'");
}

}  // namespace

TEST_CASE("bash completes verbs, options, an option's words, machines and presets") {
  CHECK(completed("foreshard pl") == "plan\n");
  CHECK(completed("foreshard plan --forward-p") == "--forward-prefetch\n");
  CHECK(completed("foreshard plan mlp --all-gather cop") == "copy-engine\n");
  CHECK(completed("foreshard plan mlp --all-gather = cop") == "copy-engine\n");
  CHECK(completed("foreshard plan mlp --machine h10") == "h100\nh100-96\n");
  CHECK(completed("foreshard plan llama3-8").find("llama3-8b\n") != std::string::npos);
  CHECK(completed("foreshard export x.db --format per") == "perfetto\n");
  CHECK(completed("foreshard plan --no-unsh") == "--no-unshard-async\n");
}

TEST_CASE("every shell's script and every man page has every option of every verb") {
  const auto verbs = described_verbs();
  REQUIRE(verbs.size() == cli::verbs().size());
  const std::string bash = bash_completion(verbs), zsh = zsh_completion(verbs), fish = fish_completion(verbs);
  for (const DescribedVerb& verb : verbs) {
    const std::string page = man_page(verb);
    for (const OptionFacts& option : verb.options)
      for (const std::string& name : option.names) {
        if (!name.starts_with("--")) continue;
        CAPTURE(verb.name, name);
        CHECK(bash.find(name) != std::string::npos);
        CHECK(zsh.find(name + "[") != std::string::npos);
        CHECK(fish.find("from " + verb.name + "'") != std::string::npos);
        std::string escaped = name;
        for (std::size_t at = 0; (at = escaped.find('-', at)) != std::string::npos; at += 2)
          escaped.insert(at, 1, '\\');
        CHECK(page.find("\\fB" + escaped + "\\fR") != std::string::npos);
      }
  }
  const auto plan = std::find_if(verbs.begin(), verbs.end(), [](const auto& verb) { return verb.name == "plan"; });
  for (const SettingOption& setting : setting_table())
    CHECK(std::any_of(plan->options.begin(), plan->options.end(), [&](const OptionFacts& option) {
      return std::find(option.names.begin(), option.names.end(), setting.option()) != option.names.end();
    }));
}

TEST_CASE("groff reads every man page without a warning") {
  if (output_of("command -v groff").empty()) {
    WARN("skipped: no groff here");
    return;
  }
  const ScratchFolder folder;
  REQUIRE(run_cli({"man", "--directory", folder.path.string()}).status == 0);
  std::size_t pages = 0;
  for (const auto& page : std::filesystem::directory_iterator(folder.path)) {
    CAPTURE(page.path());
    CHECK(output_of("groff -man -Tutf8 -ww " + page.path().string() + " 2>&1 >/dev/null").empty());
    ++pages;
  }
  CHECK(pages == cli::verbs().size() + 1);
}

TEST_CASE("a word that completion or man does not know is refused with the nearest") {
  CHECK(run_cli({"man", "pln"}).err.find("'plan'") != std::string::npos);
  CHECK(run_cli({"completion", "tcsh"}).status == 2);
  CHECK(run_cli({"completion", "--help"}).status == 0);
}

TEST_CASE("--version names commit, rules, schema, back end and every built-in profile") {
  const Answer text = run_cli({"--version"});
  CHECK(text.out.find("PyTorch: 2.6 to 2.12, default 2.11; FSDP2's schedule is that of 2.11") != std::string::npos);
  const auto json = nlohmann::json::parse(run_cli({"--version", "--json"}).out);
  CHECK(json["gpu_backend"] == false);
  CHECK(json["fsdp_schedule"] == "2.11");
  CHECK_FALSE(json["commit"].get<std::string>().empty());
  for (const auto& machine : json["machines"]) {
    CHECK(machine["digest"].get<std::string>().starts_with("xxh3:"));
    CHECK(text.out.find(machine["digest"].get<std::string>()) != std::string::npos);
  }
}

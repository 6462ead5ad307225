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

bool have(const std::string& program) {
  return !output_of("command -v " + program + " 2>/dev/null").empty();
}

/// What zsh makes of `line` at a tab, in a folder that has the file run_file.db.
std::string zsh_makes(const std::string& line) {
  const ScratchFolder folder;
  std::ofstream(folder.path / "_foreshard") << run_cli({"completion", "zsh"}).out;
  std::ofstream(folder.path / "run_file.db") << "x";
  const std::string script = (std::filesystem::current_path() / "tests/cli/complete.zsh").string();
  return output_of("cd " + folder.path.string() + " && zsh -f " + script + " " + folder.path.string() + " '" + line +
                   "' 2>&1");
}

/// What fish offers for the last word of `line`, one a line, without descriptions.
std::string fish_offers(const std::string& line) {
  const ScratchFolder folder;
  std::ofstream(folder.path / "foreshard.fish") << run_cli({"completion", "fish"}).out;
  std::ofstream(folder.path / "run_file.db") << "x";
  return output_of("cd " + folder.path.string() +
                   " && HOME=$PWD fish --no-config -c \"source foreshard.fish; complete -C'" + line +
                   "'\" 2>&1 | cut -f 1");
}

}  // namespace

TEST_CASE("zsh completes verbs, options, words, files and machines, and complains of nothing") {
  if (!have("zsh")) FORESHARD_SKIP("no zsh here");
  CHECK(zsh_makes("foreshard acc") == "accuracy\n");
  CHECK(zsh_makes("foreshard --ver") == "--version\n");
  CHECK(zsh_makes("foreshard plan --memory-l") == "plan --memory-limit\n");
  CHECK(zsh_makes("foreshard plan --machine h100-") == "plan --machine h100-96\n");  // words or files
  CHECK(zsh_makes("foreshard plan torch-t") == "plan torch-transformer\n");
  CHECK(zsh_makes("foreshard plan -o run_f") == "plan -o run_file.db\n");
  CHECK(zsh_makes("foreshard plan mlp --no-unsh") == "plan mlp --no-unshard-async\n");
}

TEST_CASE("fish completes verbs, options, words, files and machines") {
  if (!have("fish")) FORESHARD_SKIP("no fish here");
  CHECK(fish_offers("foreshard pl") == "plan\n");
  CHECK(fish_offers("foreshard --ver") == "--version\n");
  CHECK(fish_offers("foreshard plan --ma") == "--machine\n");
  CHECK(fish_offers("foreshard plan --machine h1") == "h100\nh100-96\n");
  CHECK(fish_offers("foreshard plan run_f") == "run_file.db\n");
  CHECK(fish_offers("foreshard export run_file.db --format per") == "perfetto\n");
}

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
  CHECK(text.out.find("PyTorch: 2.6 to main (of September 2026), default 2.11; FSDP2 in full from 2.11 on") !=
        std::string::npos);
  const auto json = nlohmann::json::parse(run_cli({"--version", "--json"}).out);
  CHECK(json["gpu_backend"] == false);
  CHECK(json["fsdp_schedule"] == "2.11");
  CHECK_FALSE(json["commit"].get<std::string>().empty());
  for (const auto& machine : json["machines"]) {
    CHECK(machine["digest"].get<std::string>().starts_with("xxh3:"));
    CHECK(text.out.find(machine["digest"].get<std::string>()) != std::string::npos);
  }
}

#include "cli/front_door.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <set>

#include "cli/verbs/verbs.hpp"
#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard::cli;

TEST_CASE("help goes to stdout and begins with examples; nothing at all is wrong usage") {
  const Answer help = run_cli({"--help"});
  CHECK(help.status == kDone);
  CHECK(help.out.starts_with("examples:\n  foreshard "));
  CHECK(help.err.empty());
  const Answer nothing = run_cli({});
  CHECK(nothing.status == 2);
  CHECK(nothing.out.empty());
  CHECK(run_cli({"--version"}).out.starts_with("foreshard "));
}

TEST_CASE("each verb's help begins with examples that name it") {
  std::set<std::string_view> names;
  for (const Verb& verb : verbs()) {
    INFO(verb.name);
    CHECK(names.insert(verb.name).second);
    for (const std::string_view example : verb.examples()) CHECK(example.starts_with(std::string(verb.name) + " "));
    const Answer help = run_cli({std::string(verb.name), "--help"});
    CHECK(help.status == kDone);
    CHECK(help.out.starts_with("examples:\n  foreshard " + std::string(verb.name)));
    CHECK(help.out.find("--quiet") != std::string::npos);
  }
}

TEST_CASE("unknown verbs and options get a suggestion and status 2") {
  const Answer verb = run_cli({"comapre", "a", "b"});
  CHECK(verb.status == 2);
  CHECK(verb.err == "error: unknown verb 'comapre'\n  hint: did you mean 'compare'?\n");
  const Answer option = run_cli({"query", "--jsno", "a.db", "SELECT 1"});
  CHECK(option.status == 2);
  CHECK(option.err == "error: unknown option '--jsno' of query\n  hint: did you mean '--json'?\n");
  CHECK(option.out.empty());
}

TEST_CASE("what CLI11 refuses is wrong usage too: its own exit codes never leave") {
  CHECK(run_cli({"query"}).status == 2);
  CHECK(run_cli({"compare", "a"}).status == 2);
  CHECK(run_cli({"query", "a", "b", "c"}).status == 2);
  CHECK(run_cli({"query", "a", "SELECT 1", "--json", "--csv"}).status == 2);
}

TEST_CASE("numbers are decimal and within their type, and nothing is no value") {
  const auto said = [](const std::vector<std::string>& more) {
    std::vector<std::string> words{"plan", "mlp", "--gpus", "2", "--jitter", "kernels=normal:1%"};
    words.insert(words.end(), more.begin(), more.end());
    const Answer answer = run_cli(words);
    CHECK(answer.status == 2);
    return answer.err.substr(0, answer.err.find('\n'));
  };
  // CLI11 2.1 took each of the first three: for 2^64 - 1, for 8, and for the default.
  CHECK(said({"--seed", "-1"}) == "error: --seed: '-1' is no whole number from 0 to 18446744073709551615");
  CHECK(said({"--seed", "18446744073709551616"}) ==
        "error: --seed: '18446744073709551616' is no whole number from 0 to 18446744073709551615");
  CHECK(said({"--seed", "0x10"}) == "error: --seed: '0x10' is no whole number from 0 to 18446744073709551615");
  CHECK(said({"--trials", ""}) == "error: --trials: '' is no whole number from 1 to 1000000");
  CHECK(said({"--machine", ""}) == "error: --machine: has an empty value");
  CHECK(said({"--fabric", ""}) == "error: --fabric: has an empty value");
}

TEST_CASE("files that are not there are wrong input, with their name") {
  const Answer answer = run_cli({"query", "/nonexistent/run.db", "SELECT 1"});
  CHECK(answer.status == 3);
  CHECK(answer.err.find("/nonexistent/run.db") != std::string::npos);
  CHECK(answer.out.empty());
}

TEST_CASE("a pipe is no run, and is not waited for") {
  const foreshard::test::TemporaryFolder folder;
  const std::string fifo = folder.file("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"plan", fifo},
                                             {"sweep", fifo},
                                             {"explain", fifo},
                                             {"compare", fifo, fifo},
                                             {"view", fifo, "-o", folder.file("x.html")},
                                             {"export", fifo, "--format", "dot"},
                                             {"query", fifo, "SELECT 1"}}) {
    const Answer answer = run_cli(arguments);
    INFO(arguments[0] << " " << answer.err);
    CHECK(answer.status == 3);
    CHECK(answer.err.find("is a pipe or a device, a file is needed") != std::string::npos);
  }
}

TEST_CASE("an output has a name, and is no input") {
  const foreshard::test::TemporaryFolder folder;
  const std::string a = folder.write("a.db", "x"), b = folder.file("b.html");
  const std::string config = folder.write("config.json", "x"), weights = folder.write("model.safetensors", "x");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"plan", "mlp", "--gpus", "4", "-o", ""},
                                             {"sweep", "mlp", "--gpus", "4", "--csv", ""},
                                             {"compare", a, a, "-o", ""},
                                             {"import", "--snapshot", a, "-o", a, "--force"},
                                             {"import", "--snapshot", a, "-o", folder.file("./a.db"), "--force"},
                                             {"export", a, "--format", "csv", "--table", "block", "-o", a, "--force"},
                                             {"plan", a, "-o", a, "--force"},
                                             {"plan", "mlp", "--gpus", "4", "--prefetch-lists", a, "-o", a, "--force"},
                                             {"compare", a, a, "-o", a, "--force"},
                                             {"compare", a, a, "-o", folder.file("page.txt")},
                                             {"plan", b, "--rank-source", "1=" + a, "-o", a, "--force"},
                                             {"plan", folder.path().string(), "-o", config, "--force"},
                                             {"plan", config, "-o", weights, "--force"},
                                             {"sweep", folder.path().string(), "--csv", weights, "--force"},
                                             {"plan", weights, "-o", config, "--force"},
                                             {"plan", "mlp", "--gpus", "4", "-o", "-"},
                                             {"view", a, "-o", "-"},
                                             {"sweep", "mlp", "--gpus", "4", "--csv", b, "-o", b},
                                             {"sweep", "mlp", "--gpus", "4", "--csv", "none", "-o", "./none"}}) {
    const Answer answer = run_cli(arguments);
    INFO(arguments[0] << " " << answer.err);
    CHECK(answer.status == 2);
    CHECK(answer.out.empty());
    for (const std::string& input : {a, config, weights}) CHECK(foreshard::test::file_bytes(input) == "x");
    CHECK_FALSE(std::filesystem::exists("none"));
  }
}

TEST_CASE("options that would do nothing are refused") {
  const foreshard::test::TemporaryFolder folder;
  const std::string a = folder.write("a.db", "x"), svg = folder.file("a.svg");
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"plan", "mlp", "--gpus", "4", "--force"},
           {"plan", "mlp", "--gpus", "4", "--name", "x"},
           {"sweep", "mlp", "--gpus", "4", "--name", "x"},
           {"plan", "mlp", "--gpus", "4", "--freeze", ""},
           {"plan", "mlp", "--gpus", "4", "--lora", "2", "--lora-targets", ""},
           {"plan", "mlp", "--gpus", "4", "--reshard-of-unit", "layers.0=true", "--reshard-of-unit", "layers.0=false"},
           {"compare", a, a, "--force"},
           {"explain", a, "--time", "--blocks", "3"},
           {"explain", a, "--time", "--series", "3"},
           {"export", a, "--format", "perfetto", "-o", svg, "--collapse", "none"},
           {"view", a, "-o", svg, "--no-remedies"}}) {
    const Answer answer = run_cli(arguments);
    INFO(arguments[0] << " " << answer.err);
    CHECK(answer.status == 2);
    CHECK(answer.out.empty());
  }
}

TEST_CASE("what a setting's file says is wrong input, with its place and without all of it") {
  const foreshard::test::TemporaryFolder folder;
  std::string long_value = "[1";
  for (int i = 0; i < 1000; ++i) long_value += ",1";
  long_value += ']';
  const auto answer = [&](const std::string& verb, const std::string& text) {
    const Answer out = run_cli({verb, "mlp", "--gpus", "4", "--prefetch-lists", folder.write("l.json", text)});
    INFO(verb << " " << out.err);
    CHECK(out.status == 3);
    CHECK(out.err.find("l.json") != std::string::npos);
    CHECK(out.err.size() < 400);
    return out.err;
  };
  for (const std::string verb : {"plan", "sweep"}) {
    CHECK(answer(verb, "{\"forward\":\n x}").find("line 2") != std::string::npos);
    CHECK(answer(verb, R"({"forward": {"layers.0": )" + long_value + "}}").find("forward.layers.0") !=
          std::string::npos);
    CHECK(answer(verb, R"({"forward": )" + long_value + "}").find("forward") != std::string::npos);
    CHECK(answer(verb, R"({"forwards": {}})").find("did you mean 'forward'?") != std::string::npos);
    static_cast<void>(answer(verb, long_value));
  }
}

TEST_CASE("an error is as many lines as it has parts, whatever its words came out of") {
  const Answer answer = run_cli({"plan", "no/such\nerror: other"});
  CHECK(answer.status == 3);
  CHECK(answer.err.starts_with("error: no/such\\nerror: other: cannot be opened"));
}

TEST_CASE("an option with an equals sign and nothing behind it takes no other option for its value") {
  const Answer answer = run_cli({"plan", "mlp", "--gpus", "4", "--name=", "--json"});
  CHECK(answer.status == 2);
  CHECK(answer.err == "error: '--name=' has no value\n  hint: give --name=VALUE\n");
}

TEST_CASE("outputs that cannot be are found before the work") {
  const foreshard::test::TemporaryFolder folder;
  const std::string fifo = folder.file("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  for (const std::string verb : {"plan", "sweep"}) {
    const Answer nowhere = run_cli({verb, "no-such-model", "-o", folder.file("no/x.db")});
    INFO(nowhere.err);
    CHECK(nowhere.status == 3);
    CHECK(nowhere.err.find("cannot create a file here") != std::string::npos);
    const Answer special = run_cli({verb, "no-such-model", "-o", fifo, "--force"});
    CHECK(special.status == 2);
    CHECK(special.err.find("is a FIFO, and no file") != std::string::npos);
  }
  CHECK(std::filesystem::is_fifo(fifo));
}

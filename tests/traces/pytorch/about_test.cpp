#include "traces/pytorch/about.hpp"

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/pytorch/packing.hpp"

namespace foreshard::traces {
namespace {

const std::string kAbout = R"({
 "schema": 1,
 "torch": "2.11.0+cu130", "nccl": "2.28.9", "gpu": "NVIDIA H200", "sm_count": 132,
 "gpus": 4, "nodes": 1, "replicate": 2, "batch": 4, "seq": null,
 "settings": {"param_dtype": "bfloat16", "reduce_dtype": null, "forward_prefetch": 2, "release": "record-stream",
  "reshard_of_unit": {"layers.0": false}, "alloc_conf": "expandable_segments:True"},
 "root_reshard_explicit": true,
 "measured": {"step_ms": [1.5, 2], "host_issue_ms": [1.25], "profiler": false},
 "model_config": {"b": 1, "a": [2]},
 "units": [
  {"unit": "", "parameters": [{"name": "norm.weight", "shape": [2048], "dtype": "float32"}]},
  {"unit": "layers.0", "parameters": [{"name": "layers.0.w", "shape": [8, 4], "dtype": "bfloat16"}]}]
})";

/// The about file with one place changed.
std::string with(const std::string& from, const std::string& to) {
  std::string text = kAbout;
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}
std::string message_of(const std::string& text) {
  const auto about = parse_about(text, "a.json");
  REQUIRE(!about);
  return about.error().text();
}

TEST_CASE("an about file's units may have several parameter groups") {
  const std::string one = R"({"name": "layers.0.w", "shape": [8, 4], "dtype": "bfloat16"})";
  const auto grouped = [&](const std::string& groups) {
    return with(one + "]",
                one + R"(, {"name": "layers.0.v", "shape": [8], "dtype": "bfloat16"}], "groups": )" + groups);
  };
  const auto about = parse_about(grouped("[1, 1]"), "a.json");
  REQUIRE(about);
  CHECK(about->units[1].groups == std::vector<std::uint32_t>{1, 1});
  CHECK(about->units[0].groups.empty());
  CHECK(parse_about(grouped("[2]"), "a.json")->units[1].groups.empty());
  for (const char* wrong : {"[1]", "[1, 2]", "[0, 2]", "[3, -1]", "[1.0, 1.0]", "[]", "2", R"(["1", "1"])"}) {
    CAPTURE(wrong);
    CHECK(message_of(grouped(wrong)).find("units[1].groups") != std::string::npos);
    CHECK(message_of(grouped(wrong)).find("each at least 1 and 2 together") != std::string::npos);
  }
}

TEST_CASE("an about file's settings, units and times") {
  const auto about = parse_about(kAbout, "a.json");
  INFO((about ? "" : about.error().text()));
  REQUIRE(about);
  CHECK(about->torch == "2.11.0+cu130");
  CHECK(about->nccl == "2.28.9");
  CHECK(about->sm_count == 132);
  CHECK(about->settings.pytorch == "2.11");
  CHECK(about->settings.gpus == 4);
  CHECK(about->settings.replicate == 2);
  CHECK(about->settings.batch == 4);
  CHECK(!about->settings.seq);
  CHECK(about->settings.param_dtype == DType::bfloat16);
  CHECK(!about->settings.reduce_dtype);
  CHECK(about->settings.forward_prefetch == 2);
  CHECK(about->settings.release == Release::record_stream);
  CHECK(about->settings.reshard_of_unit.at("layers.0").kind == Reshard::Kind::never);
  CHECK(about->settings.alloc_conf == "expandable_segments:True");
  REQUIRE(about->units.size() == 2);
  CHECK(about->units[1].parameters[0] == Parameter{"layers.0.w", {8, 4}, DType::bfloat16});
  REQUIRE(about->measured);
  CHECK(about->measured->step_ms == std::vector<double>{1.5, 2});
  CHECK(about->measured->host_issue_ms == std::vector<double>{1.25});
  CHECK(about->model_config == R"({"b":1,"a":[2]})");
}

TEST_CASE("whether parameters are trained may be said") {
  const auto about = [](const std::string& text) { return parse_about(text, "a.json").value(); };
  const std::string split = with("\"dtype\": \"bfloat16\"}", "\"dtype\": \"bfloat16\", \"expert_parallel\": true}");
  CHECK_FALSE(about(split).requires_grad_known);
  CHECK(about(split).units[1].parameters[0].expert_parallel);
  CHECK_FALSE(about(split).units[0].parameters[0].expert_parallel);
  CHECK_FALSE(about(kAbout).requires_grad_known);
  const About said = about(with("\"dtype\": \"bfloat16\"}", "\"dtype\": \"bfloat16\", \"requires_grad\": false}"));
  CHECK(said.requires_grad_known);
  CHECK(said.units[0].parameters[0].requires_grad);
  CHECK_FALSE(said.units[1].parameters[0].requires_grad);
  CHECK(message_of(with("\"dtype\": \"bfloat16\"}", "\"dtype\": \"bfloat16\", \"requires_grad\": 0}")) ==
        "a.json, units[1].parameters[0].requires_grad: true or false is needed, this is a number");
}

TEST_CASE("the dimension that a parameter is cut along") {
  const auto cut = [](const std::string& dim) {
    return with("\"dtype\": \"bfloat16\"}", "\"dtype\": \"bfloat16\", \"shard_dim\": " + dim + "}");
  };
  const auto dim_in = [](const std::string& text) {
    const auto about = parse_about(text, "a.json");
    REQUIRE(about);
    return about->units[1].parameters[0].shard_dim;
  };
  CHECK(dim_in(cut("0")) == 0);
  CHECK(dim_in(cut("1")) == 1);
  CHECK(dim_in(about_json(parse_about(cut("1"), "a.json").value())) == 1);
  for (const std::string dim : {"2", "-1"})
    CHECK(message_of(cut(dim)) ==
          "a.json, units[1].parameters[0].shard_dim: layers.0.w has 2 dimensions, and none of number " + dim +
              "\n  hint: dimensions count from 0");
  CHECK(message_of(cut("1.5")) == "a.json, units[1].parameters[0].shard_dim: a dimension is needed, this is a number");
}

TEST_CASE("an about file with only what is needed") {
  const auto about = parse_about(R"({"schema": 1, "torch": "2.11", "gpus": 2, "units": [
    {"unit": "", "parameters": [{"name": "w", "shape": [1], "dtype": "float32"}]}]})",
                                 "a.json");
  REQUIRE(about);
  CHECK(about->settings.nodes == 1);
  CHECK(!about->measured);
  CHECK(about->sm_count == 0);
}

TEST_CASE("times taken under a profiler are not used") {
  const auto about = parse_about(with(R"("profiler": false)", R"("profiler": true)"), "a.json");
  REQUIRE(about);
  CHECK(!about->measured);
  CHECK(about->warnings.size() == 1);
}

TEST_CASE("broken JSON has line and column") {
  CHECK(message_of("{\n \"schema\": 1,\n \"torch\" 3}")
            .starts_with("a.json, line 3, column 10: this is not valid JSON: "));
  CHECK(message_of("").starts_with("a.json, line 1, column 1: this is not valid JSON: "));
  CHECK(message_of(kAbout.substr(0, 20)).starts_with("a.json, line 3, column "));
  CHECK(message_of(R"({"schema": 1, "schema": 1})") ==
        "a.json, line 1, column 15: the key 'schema' occurs twice in one object\n  hint: keep one of them");
  CHECK(message_of("[]") == "a.json: an object is needed here, this is an array");
}

TEST_CASE("unknown keys and words come with the nearest known one") {
  CHECK(message_of(with("\"batch\"", "\"bacth\"")) == "a.json: unknown key 'bacth'\n  hint: did you mean 'batch'?");
  CHECK(message_of(with("forward_prefetch", "forward_prefech")) ==
        "a.json, settings: unknown key 'forward_prefech'\n  hint: did you mean 'forward_prefetch'?");
  CHECK(message_of(with("record-stream", "record_streem")).find("did you mean 'record-stream'?") != std::string::npos);
  CHECK(message_of(with("record-stream", "record_streem")).starts_with("a.json, settings.release: "));
  CHECK(message_of(with(R"("shape": [2048])", R"("shpe": [2048])")) ==
        "a.json, units[0].parameters[0]: unknown key 'shpe'\n  hint: did you mean 'shape'?");
  CHECK(message_of(with(R"("bfloat16"}]}])", R"("bflot16"}]}])")) ==
        "a.json, units[1].parameters[0].dtype: unknown dtype 'bflot16'\n  hint: did you mean 'bfloat16'?");
  CHECK(message_of(with("\"layers.0\": false", "\"layers.9\": false")) ==
        "a.json, settings.reshard_of_unit: 'layers.9' is no unit of this file\n  hint: did you mean 'layers.0'?");
}

TEST_CASE("a file of some parts says which settings it gives") {
  const auto some =
      parse_about(R"({"schema": 1, "batch": 4, "settings": {"release": "stash"}})", "a.json", AboutParts::some);
  REQUIRE(some);
  CHECK(some->given == std::vector<std::string>{"batch", "release"});
  CHECK(gives(*some, "batch"));
  CHECK_FALSE(gives(*some, "seq"));
  CHECK(some->units.empty());
  CHECK(check_whole(*some, "a.json").error().text() == "a.json, torch: this key is missing");
  CHECK(check_whole(parse_about(kAbout, "a.json", AboutParts::some).value(), "a.json"));
  // Alone it does not go together, with a recording of 4 ranks it can.
  CHECK(parse_about(R"({"schema": 1, "replicate": 2})", "a.json", AboutParts::some));
}

TEST_CASE("what is written is read again") {
  const About about = parse_about(kAbout, "a.json").value();
  const About again = parse_about(about_json(about), "b.json").value();
  CHECK(again.settings == about.settings);
  CHECK(again.units == about.units);
  CHECK(again.gpu == about.gpu);
  CHECK(again.sm_count == about.sm_count);
}

TEST_CASE("parameters of the optimizer's groups are those of the units, each once") {
  const auto grouped = [](const std::string& groups) {
    return R"({"schema": 1, "optimizer_param_groups": )" + groups + R"(, "units": [
      {"unit": "", "parameters": [{"name": "a", "shape": [8], "dtype": "float32"},
                                  {"name": "b", "shape": [8], "dtype": "float32"}]}]})";
  };
  const auto read = [&](const std::string& groups) { return parse_about(grouped(groups), "a.json", AboutParts::some); };
  using Groups = std::vector<std::vector<std::string>>;
  const auto two = read(R"([["b"], ["a"]])");
  REQUIRE(two);
  CHECK(two->optimizer_param_groups == Groups{{"b"}, {"a"}});
  CHECK(parse_about(about_json(*two), "b.json", AboutParts::some)->optimizer_param_groups == Groups{{"b"}, {"a"}});
  CHECK(read(R"([["a", "b"]])")->optimizer_param_groups.empty());
  CHECK(read(R"([["b"], ["c"]])").error().text() ==
        "a.json, optimizer_param_groups[1][0]: no unit of this file has the parameter 'c'");
  CHECK(read(R"([["b"], ["b"]])").error().text() ==
        "a.json, optimizer_param_groups[1][0]: the parameter 'b' is named twice");
  CHECK(read(R"([["b"], []])").error().text() ==
        "a.json, optimizer_param_groups[1]: an array of parameters' names is needed");
  CHECK(read(R"([["b"], [1]])").error().text() ==
        "a.json, optimizer_param_groups[1][0]: a name is needed, this is a number");
}

TEST_CASE("missing keys and wrong types name their path") {
  CHECK(message_of(with("\"torch\": \"2.11.0+cu130\",", "")) == "a.json, torch: this key is missing");
  CHECK(message_of(with("\"gpus\": 4,", "")) == "a.json, gpus: this key is missing");
  CHECK(message_of(with("\"nccl\": \"2.28.9\"", "\"nccl\": 2")) ==
        "a.json, nccl: a string is needed, this is a number");
  CHECK(message_of(with("\"schema\": 1", "\"schema\": 2"))
            .starts_with("a.json, schema: schema 2 is not known, this version reads 1"));
  CHECK(message_of(with("\"sm_count\": 132", "\"sm_count\": 0")) ==
        "a.json, sm_count: a whole number of at least 1 is needed, this is 0");
  CHECK(message_of(with("[1.5, 2]", "[1.5, -2]")) == "a.json, measured.step_ms[1]: -2 is not a time in ms");
  CHECK(message_of(with("[1.25]", "[]")) == "a.json, measured.host_issue_ms: an array of times in ms is needed");
  CHECK(message_of(with(R"("profiler": false)", R"("profiler": 0)")) ==
        "a.json, measured.profiler: true or false is needed, this is a number");
  CHECK(message_of(with("2.11.0+cu130", "1.13")).starts_with("a.json, torch: PyTorch 1.13 is not supported"));
}

TEST_CASE("a text where a number, true or false, or an object is meant is refused with its key") {
  CHECK(message_of(with(R"("gpus": 4)", R"("gpus": "4")")) ==
        "a.json, gpus: a number is needed, this is the text \"4\"\n  hint: write it without quotes");
  CHECK(message_of(with(R"("batch": 4)", R"("batch": "4")")).find("a.json, batch: a number is needed") !=
        std::string::npos);
  CHECK(message_of(with(R"("root_reshard_explicit": true)", R"("root_reshard_explicit": "true")"))
            .find("a.json, root_reshard_explicit: true or false is needed, this is the text \"true\"") !=
        std::string::npos);
  CHECK(message_of(with(R"("forward_prefetch": 2)", R"("forward_prefetch": "2")"))
            .find("a.json, settings.forward_prefetch: a number is needed") != std::string::npos);
  CHECK(message_of(with(R"("forward_prefetch": 2)", R"("prefetch_lists": "{\"forward\": {}}")"))
            .find("a.json, settings.prefetch_lists: an object is needed") != std::string::npos);
  CHECK(parse_about(with(R"("forward_prefetch": 2)", R"("forward_prefetch": "implicit")"), "a.json"));
}

TEST_CASE("units and settings that cannot be") {
  CHECK(message_of(with("\"replicate\": 2", "\"replicate\": 3"))
            .starts_with("a.json: replicate 3 does not divide the 4 GPUs"));
  CHECK(message_of(R"({"schema": 1, "torch": "2.11", "gpus": 2, "units": []})") ==
        "a.json, units: a list of at least one FSDP unit is needed");
  CHECK(message_of(R"({"schema": 1, "torch": "2.11", "gpus": 2, "units": [{"unit": "", "parameters": []}]})") ==
        "a.json, units: no unit has a parameter");
  CHECK(message_of(with("\"unit\": \"\"", "\"unit\": \"a\"")) ==
        "a.json, units[0].unit: the first unit must be the root, whose name is empty, not 'a'");
  CHECK(message_of(with("\"unit\": \"layers.0\"", "\"unit\": \"\"")) ==
        "a.json, units[1].unit: only the first unit is the root, with the empty name");
  CHECK(message_of(with("layers.0.w", "norm.weight"))
            .starts_with("a.json, units[1].parameters[0].name: the parameter 'norm.weight' is named twice"));
  CHECK(message_of(with("[8, 4]", "[8, 0]"))
            .starts_with("a.json, units[1].parameters[0].shape[1]: 0 is not a size of a parameter"));
  CHECK(
      message_of(with("[8, 4]", "[]")).starts_with("a.json, units[1].parameters[0].shape: the parameter is a scalar"));
  CHECK(message_of(with("[8, 4]", "[4294967296, 4294967296]"))
            .starts_with("a.json, units[1].parameters[0].shape[1]: 4294967296"));
  CHECK(
      message_of(with("[8, 4]", "[8, 4.5]")).starts_with("a.json, units[1].parameters[0].shape[1]: 4.5 is not a size"));
}

TEST_CASE("an about file on disk, packed") {
  const test::TemporaryFolder folder;
  CHECK(read_about(folder.write("about.json.gz", testing::gzip(kAbout)))->units.size() == 2);
  CHECK(read_about("/nonexistent/about.json").error().what == "cannot be opened: No such file or directory");
}

}  // namespace
}  // namespace foreshard::traces

#include "traces/workload_file/workload_file.hpp"

#include <fstream>
#include <sstream>

#include "core/kernel/kernel_check.hpp"
#include "core/kernel/kernel_op_names.hpp"
#include "tests/catch.hpp"
#include "tests/traces/workload_file/workload_sample.hpp"
#include "traces/workload_file/record_tables.hpp"

namespace foreshard::traces {
namespace {

std::string page() {
  std::ostringstream out;
  out << std::ifstream("docs/workload.md").rdbuf();
  return out.str();
}

/// The example of docs/workload.md.
std::string example() {
  const std::string text = page();
  const std::size_t begin = text.find("```json\n") + 8;
  return text.substr(begin, text.find("```", begin) - begin);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  INFO(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("the example of the documentation is a workload", "[workload_file][docs]") {
  const Result<Workload> read = from_json(example(), "docs/workload.md");
  INFO((read ? "" : read.error().text()));
  REQUIRE(read);
  CHECK(read->units.size() == 2);
  CHECK(read->settings.optimizer == Optimizer::sgd);
  CHECK(read->units[1].parameters[1] == Parameter{"block.bias", {512}, DType::float32});
  REQUIRE(read->steps.size() == 1);
  const Op& gemm = read->steps[0].ops.at(8);
  CHECK(gemm.kernel.work.count == 12000);
  CHECK(gemm.host_before.count == 9000);
  CHECK(read->labels.text(gemm.kernel.label) == "aten::addmm");
  const Op& shard = read->setup.ops.at(2);
  CHECK(shard.size == AllocationSize{AllocationSize::Kind::local_shard, 1024, ParameterId{2}});

  // What foreshard writes of it is the same workload.
  const Result<Workload> again = from_json(to_json(*read), "again");
  REQUIRE(again);
  CHECK(test::difference(*read, *again) == "");
}

TEST_CASE("the documentation names every key, word and place", "[workload_file][docs]") {
  const std::string text = page();
  const auto check_key = [&](std::string_view key) {
    INFO(key);
    CHECK(text.find("`" + std::string(key) + "`") != std::string::npos);
  };
  for (const auto& field : kWorkloadFields) check_key(field.key);
  for (const char* key : {"computations", "losses", "computes", "scalars", "integers", "accumulate"}) check_key(key);
  for (std::size_t i = 0; i < EnumNames<KernelOp>::kNames.size(); ++i)
    if (in_programs(static_cast<KernelOp>(i))) check_key(EnumNames<KernelOp>::kNames[i]);
  for (const auto& field : kOpFields) check_key(field.key);
  for (const auto& field : kSectionFields) check_key(field.key);
  for (const auto& field : kSegmentFields) check_key(field.key);
  for (const auto& names : {std::span<const std::string_view>(EnumNames<MemoryCategory>::kNames),
                            std::span<const std::string_view>(EnumNames<KernelClass>::kNames),
                            std::span<const std::string_view>(EnumNames<CopyKind>::kNames),
                            std::span<const std::string_view>(EnumNames<Hook>::kNames),
                            std::span<const std::string_view>(EnumNames<Section>::kNames),
                            std::span<const std::string_view>(EnumNames<SectionRole>::kNames),
                            std::span<const std::string_view>(EnumNames<BlockState>::kNames)})
    for (const std::string_view name : names) check_key(name);
  for (const OpForm& form : kOpForms) {
    std::string row = "| `" + std::string(name(form.kind)) + "` | ";
    for (std::size_t i = 0; i < form.count; ++i)
      row += (i > 0 ? ", `" : "`") + std::string(kOpFields[form.positions[i]].key) + "`";
    row += " | " + std::to_string(form.required) + " |";
    INFO(row);
    CHECK(text.find(row) != std::string::npos);
    CHECK(kOpForms[static_cast<std::size_t>(form.kind)].kind == form.kind);
    CHECK(form.positions[form.count - 2] == op_field::host_ns);
    CHECK(form.positions[form.count - 1] == op_field::label);
  }
}

TEST_CASE("each op is one short line", "[workload_file]") {
  const std::string text = to_json(*from_json(example(), ""));
  for (const char* line : {"\n  [\"alloc\",1,524288,\"parameters\",{\"size\":\"local_shard\",\"parameter\":1}],\n",
                           "\n   [\"hook\",\"pre_forward\",0,20000],\n", "\n   [\"kernel\",\"gemm\",12000,9000,0],\n",
                           "\n   [\"free\",2],\n", "\n   [\"hook\",\"zero_grad\"],\n"}) {
    INFO(line);
    CHECK(text.find(line) != std::string::npos);
  }
}

struct Fault {
  const char* from;
  const char* to;
  const char* where;
  const char* what;
  const char* hint;
};

TEST_CASE("faults name their place", "[workload_file]") {
  const Fault fault = GENERATE(
      Fault{"\"has_timing\"", "\"has_timings\"", "$", "unknown key 'has_timings'", "did you mean 'has_timing'?"},
      Fault{"\"gpus\"", "\"gpu_count\"", "$.settings", "unknown setting 'gpu_count'", ""},
      Fault{"\"gpus\": 2", "\"gpus\": 2, \"replicate\": 4", "$.settings", "replicate 4 does not divide the 2 GPUs",
            "an HSDP mesh"},
      Fault{"\"sgd\"}", "\"sdg\"}", "$.settings", "'sdg' is not a value of optimizer", "sgd"},
      Fault{"\"schema\": 1", "\"schema\": 2", "$", "the file has schema 2, and this foreshard reads schema 1", "newer"},
      Fault{"foreshard workload", "something", "$", "is not a workload file", "a workload file begins with"},
      Fault{"\"format\": \"foreshard workload\",", "", "$", "is not a workload file", ""},
      Fault{"\"schema\": 1,", "", "$", "the key 'schema' is missing", ""},
      Fault{"\"name\": \"block\"", "\"nam\": \"block\"", "$.units[1]", "unknown key 'nam'", "did you mean 'name'?"},
      Fault{"\"name\": \"block\", ", "", "$.units[1]", "the key 'name' is missing", ""},
      Fault{"[512, 512]", "[512, -1]", "$.units[1].parameters[0][1]", "no parameter has this shape", ""},
      Fault{"[512, 512]", "[4294967296, 4294967296]", "$.units[1].parameters[0][1]", "no parameter has this shape", ""},
      Fault{"[512, 512], \"float32\"", "[512, 512], \"float32\", true, false, false, 2", "$.units[1].parameters[0][6]",
            "'block.weight' has 2 dimensions", ""},
      Fault{"[512, 512], \"float32\"", "[512, 512], \"float32\", true, false, false, -1", "$.units[1].parameters[0][6]",
            "-1 is out of range here", ""},
      Fault{"\"float32\"", "\"float23\"", "$.units[1].parameters[0][2]", "unknown word 'float23'", "float32"},
      Fault{"true", "1", "$.has_timing", "true or false is wanted here, not 1", ""},
      Fault{"\"two units\"", "{}", "$.name", "text is wanted here, not an object", ""},
      Fault{"\"parameter\": 2", "\"parameter\": 3", "$.setup[2]", "there is no parameter 3, only 3", ""},
      Fault{"\"local_shard\", \"parameter\": 0", "\"local_shard\"", "$.setup[0]", "a local_shard names its parameter",
            ""},
      Fault{"\"pre_forward\", 1", "\"pre_forward\", 2", "$.steps[0][6]", "there is no unit 2, only 2", ""},
      Fault{"\"pre_forward\", 1, 15000", "\"pre_forward\"", "$.steps[0][6]", "pre_forward names its unit", ""},
      Fault{"\"pre_forward\", 1", "\"prefoward\", 1", "$.steps[0][6][1]", "unknown word 'prefoward'", "pre_forward"},
      Fault{"\"kernel\", \"gemm\", 12000", "\"kernal\", \"gemm\", 12000", "$.steps[0][8][0]", "unknown word 'kernal'",
            "did you mean 'kernel'?"},
      Fault{"\"gemm\", 12000", "\"gemm\", -1", "$.steps[0][8]", "a time of -1 ns is outside 0 to", ""},
      Fault{"\"gemm\", 12000", "\"gemm\", 12000.5", "$.steps[0][8][2]", "a whole number is wanted here, not 12000.5",
            ""},
      Fault{"\"gemm\", 12000", "\"gemm\", 99999999999999999999", "$.steps[0][8][2]", "a whole number is wanted here",
            ""},
      Fault{"\"gemm\", 12000, 9000, \"aten::addmm\"", "\"gemm\"", "$.steps[0][8]",
            "a kernel has 2 to 4 values behind its kind, not 1", ""},
      Fault{"\"aten::addmm\"", "0", "$.steps[0][8][4]", "there is no label 0: \"labels\" has 0", ""},
      Fault{"\"aten::addmm\"]", "\"aten::addmm\", {\"work_ns\": 1}]", "$.steps[0][8][5]",
            "'work_ns' of a kernel has a place in its list", "write it as value 2"},
      Fault{"\"aten::addmm\"]", "\"aten::addmm\", {\"steam\": 1}]", "$.steps[0][8][5]", "unknown key 'steam'",
            "did you mean 'stream'?"},
      Fault{"\"aten::addmm\"]", "\"aten::addmm\", {\"stream\": 256}]", "$.steps[0][8][5].stream",
            "256 is out of range here", ""},
      Fault{"[\"free\", 2]", "[\"free\", 1]", "$.steps[0][25]", "tensor 1 is freed twice", ""},
      Fault{"[\"free\", 2]", "[\"free\", 9]", "$.steps[0][20]", "tensor 9 is not allocated before this free",
            "steps_ago"},
      Fault{"[\"free\", 2]", "[\"free\", null]", "$.steps[0][20]", "a free names its tensor", ""},
      Fault{"[\"free\", 2]", "[\"free\", 9, {\"steps_ago\": 1}]", "$.steps[0][20]",
            "tensor 9 is not allocated in the step 1 before", ""},
      Fault{"[\"free\", 2]", "[\"free\", 0, {\"steps_ago\": 2}]", "$.steps[0][20]", "tensor 0 is not allocated in", ""},
      Fault{"[\"free\", 2]", "[\"free\", 5, {\"from_setup\": true}]", "$.steps[0][20]",
            "tensor 5 is not allocated in setup", ""},
      Fault{"[\"free\", 2]", "[]", "$.steps[0][20]", "an op begins with its kind", ""},
      Fault{"[\"free\", 2]", "7", "$.steps[0][20]", "an array is wanted here, not 7", ""},
      Fault{"\"alloc\", 2, 128000", "\"alloc\", 1, 128000", "$.steps[0][10]", "tensor 1 is allocated twice", ""},
      Fault{"\"alloc\", 2, 128000", "\"alloc\", null, 128000", "$.steps[0][10]", "an alloc names its tensor", ""},
      Fault{"\"alloc\", 2, 128000", "\"alloc\", 1000000, 128000", "$.steps[0][10]", "tensor 1000000 is not below", ""},
      Fault{"\"alloc\", 2, 128000", "\"alloc\", 4294967295, 128000", "$.steps[0][10][1]", "4294967295 is out of range",
            ""},
      Fault{"\"alloc\", 2, 128000", "\"alloc\", 2, 1125899906842625", "$.steps[0][10]", "bytes are more than", ""},
      Fault{"\"alloc\", 2, 1024,", "\"alloc\", 2, -1024,", "$.setup[2][2]", "-1024 is out of range here", ""});
  const Result<Workload> read = from_json(replaced(example(), fault.from, fault.to), "w.json");
  REQUIRE(!read);
  INFO(read.error().text());
  CHECK(read.error().kind == ErrorKind::input);
  CHECK(read.error().where == "w.json: " + std::string(fault.where));
  CHECK(read.error().what.find(fault.what) != std::string::npos);
  CHECK(read.error().hint.find(fault.hint) != std::string::npos);
}

TEST_CASE("a tensor of an earlier step or of setup can be freed", "[workload_file]") {
  for (const char* op : {"[\"free\", 2, {\"steps_ago\": 1}]", "[\"free\", 2, {\"from_setup\": true}]",
                         "[\"free\", null, {\"before_recording\": true, \"bytes\": 139637976727552}]"}) {
    const Result<Workload> read = from_json(replaced(example(), "[\"free\", 2]", op), "w.json");
    INFO((read ? "" : read.error().text()));
    CHECK(read);
  }
}

TEST_CASE("text that is not JSON", "[workload_file]") {
  const auto check = [](std::string_view text, std::string_view where, std::string_view what) {
    const Result<Workload> read = from_json(text, "w.json");
    REQUIRE(!read);
    INFO(read.error().text());
    CHECK(read.error().where == where);
    CHECK(read.error().what.find(what) != std::string::npos);
  };
  check("", "w.json, line 1, column 1", "not valid JSON");
  check("{\n \"format\": ,\n}", "w.json, line 2, column 12", "not valid JSON");
  check("{\"format\": \"foreshard workload\", \"schema\": 1", "w.json, line 1, column 45", "not valid JSON");
  check("\x80\x02}q\x01.", "w.json, line 1, column 1", "not valid JSON");
  check("{\"format\": \"\xff\"}", "w.json, line 1, column 13", "not valid JSON");
  check("[1]", "w.json: $", "is not a workload file");
  check("{\"model_type\": \"llama\"}", "w.json: $", "is not a workload file");
  check("{\"a\": 1e999}", "w.json, line 1, column 13", "number overflow");
  check(replaced(example(), "\"setup\": [", "\"units\": [], \"setup\": ["), "w.json, line 11, column 2",
        "the key 'units' occurs twice");
  check(std::string(200000, '['), "w.json, line 1, column 200001", "cut short");
}

TEST_CASE("a key that occurs twice is refused wherever it is", "[workload_file]") {
  const auto [from, to, key] = GENERATE(table<std::string, std::string, std::string>(
      {{"\"aten::addmm\"]", "\"aten::addmm\", {\"stream\": 1, \"stream\": 2}]", "stream"},
       {"\"gpus\": 2", "\"gpus\": 2, \"gpus\": 4", "gpus"},
       {"\"gpus\": 2", "\"gpus\": 2, \"reshard_of_unit\": {\"block\": true, \"block\": false}", "block"},
       {"\"name\": \"block\"", "\"name\": \"block\", \"name\": \"block\"", "name"}}));
  const Result<Workload> read = from_json(replaced(example(), from, to), "w.json");
  REQUIRE(!read);
  CHECK(read.error().what == "the key '" + key + "' occurs twice in one object");
  CHECK(read.error().where.starts_with("w.json, line "));
}

TEST_CASE("half of a pair of surrogates is no text", "[workload_file]") {
  for (const char* half : {"\"\\ud800\"", "\"\\udc00\""})
    CHECK(!from_json(replaced(example(), "\"two units\"", half), "w.json"));
}

TEST_CASE("a whole number beyond 64 bits is a real one", "[workload_file]") {
  const Result<Workload> read = from_json(
      replaced(example(), "\"has_timing\"", "\"recorded_host_ms\": [99999999999999999999], \"has_timing\""), "w.json");
  REQUIRE(read);
  CHECK(read->recorded_host_ms == std::vector<double>{1e20});
}

TEST_CASE("a file cut short anywhere is refused", "[workload_file]") {
  const std::string text = example();
  const std::size_t end = text.rfind('}');
  for (std::size_t length = 0; length <= end; length += 7) CHECK(!from_json(text.substr(0, length), "w.json"));
}

}  // namespace
}  // namespace foreshard::traces

#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/model_files/safetensors_sample.hpp"
#include "traces/store/store.hpp"
#include "traces/workload_file/workload_file.hpp"
#include "traces/workload_source/workload_source.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

Source read(const std::string& text) {
  auto source = read_source({text});
  INFO((source ? std::string() : source.error().text()));
  REQUIRE(source);
  return std::move(*source);
}

Error refused(const SourceRequest& request) {
  const auto source = read_source(request);
  REQUIRE_FALSE(source);
  return source.error();
}

const std::string kConfig = R"({"model_type": "qwen3", "hidden_size": 256, "intermediate_size": 512,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1000})";
const std::string kHeader = R"({"layers.0.w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}})";

}  // namespace

TEST_CASE("presets by name, with another width and depth") {
  const Source source = read("llama-8b");
  REQUIRE(source.model);
  CHECK_FALSE(source.workload);
  CHECK(source.name == "llama-8b");
  CHECK(source.settings.batch == source.model->default_batch);
  CHECK(source.settings.seq == source.model->default_seq);
  const auto small = read_source({"mlp", 512, 3});
  REQUIRE(small);
  CHECK(small->model->dim == 512);
  CHECK(small->model->layers == 3);
}

TEST_CASE("names that are nothing get the nearest preset; paths do not") {
  CHECK(refused({"llama-8"}).hint == "did you mean 'llama-8b'?");
  CHECK(refused({"zzzzzz"}).hint.starts_with("presets: "));
  const Error path = refused({"models/llama-8/config.json"});
  CHECK(path.what == "cannot be opened: No such file or directory");
  CHECK(path.hint.find("safetensors") != std::string::npos);
}

TEST_CASE("names that no file can have, and pipes, are refused and not waited for") {
  const test::TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder.file("loop"));
  const std::string fifo = folder.file("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  REQUIRE(::mkfifo(folder.file("model.safetensors").c_str(), 0600) == 0);
  CHECK(refused({folder.file("loop/x")}).kind == ErrorKind::input);
  CHECK(refused({folder.file("loop")}).what.starts_with("cannot be opened"));
  CHECK(refused({std::string(256, 'x')}).what == "cannot be opened: File name too long");
  CHECK(refused({fifo}).what == "is a pipe or a device, a file is needed");
  CHECK(refused({folder.path().string()}).what == "is a pipe or a device, a file is needed");
}

TEST_CASE("the files of a model are those of its folder") {
  const test::TemporaryFolder folder;
  const std::string config = folder.write("config.json", kConfig), weights = folder.write("a.safetensors", "");
  const auto has = [](const std::vector<std::string>& files, const std::string& file) {
    return std::find(files.begin(), files.end(), file) != files.end();
  };
  for (const std::string& source : {folder.path().string(), config, weights}) {
    CHECK(has(source_files(source), config));
    CHECK(has(source_files(source), weights));
  }
  CHECK(source_files("mlp") == std::vector<std::string>{"mlp"});
}

TEST_CASE("--dim and --layers are for presets") {
  const test::TemporaryFolder folder;
  const std::string config = folder.write("config.json", kConfig);
  CHECK(refused({config, 512}).what.find("--dim") != std::string::npos);
  CHECK(refused({config, {}, 4}).what.find("--layers") != std::string::npos);
}

TEST_CASE("model files: config.json by name or content, safetensors by content") {
  const test::TemporaryFolder folder;
  CHECK(read(folder.write("config.json", kConfig)).model->family == ModelFamily::hf_qwen3);
  CHECK(read(folder.write("my-model.json", kConfig)).model->family == ModelFamily::hf_qwen3);
  CHECK(read(folder.write("renamed.bin", safetensors_bytes(kHeader, 16))).model->family == ModelFamily::states_only);
  CHECK(refused({folder.write("workload.json", R"({"format": "foreshard workload", "schema": 1, "nme": 1})")})
            .what.find("nme") != std::string::npos);
  for (const char* other : {"{}", R"({"foo": 1})"}) {
    const Error error = refused({folder.write("other.json", other)});
    CHECK(error.what == "is neither a workload file nor a Hugging Face config.json");
    CHECK(error.hint.find("model_type") != std::string::npos);
  }
}

TEST_CASE("a folder: its config.json, else its safetensors") {
  const test::TemporaryFolder folder;
  CHECK(refused({folder.path()}).what.find("folder without a config.json") != std::string::npos);
  folder.write("model.safetensors", safetensors_bytes(kHeader, 16));
  CHECK(read(folder.path()).model->family == ModelFamily::states_only);
  folder.write("config.json", R"({"model_type": "t5"})");
  const Source unknown = read(folder.path());
  CHECK(unknown.model->family == ModelFamily::states_only);
  REQUIRE(unknown.warnings.size() >= 2);
  CHECK(unknown.warnings[0].find("'t5'") != std::string::npos);
  folder.write("config.json", R"({"model_type": "qwen3"})");  // a known family with a mistake in it is a mistake
  CHECK(refused({folder.path()}).what == "this key is missing");
  folder.write("config.json", kConfig);
  CHECK(read(folder.path()).model->family == ModelFamily::hf_qwen3);
}

TEST_CASE("recordings and other checkpoints say what to do with them") {
  const test::TemporaryFolder folder;
  CHECK(refused({folder.write("a.pickle", "\x80\x04....")}).hint.find("foreshard import") != std::string::npos);
  CHECK(refused({folder.write("a.pt", std::string("PK\x03\x04", 4) + "rest")}).hint.find("safetensors") !=
        std::string::npos);
  CHECK(refused({folder.write("a.gguf", "GGUF\x03....")}).kind == ErrorKind::usage);
}

TEST_CASE("a store whose workload is no text is refused") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("run.db");
  Run run;
  run.workload_json = "{}";
  REQUIRE(write_run(run, path));
  // The column has no type any more, as in a store whose pages were exchanged.
  for (const char* sql : {"PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql='CREATE TABLE workload(id INTEGER "
                          "PRIMARY KEY, json)' WHERE name='workload'",
                          "UPDATE workload SET json=5"}) {
    sqlite3* raw = nullptr;
    REQUIRE(sqlite3_open(path.c_str(), &raw) == SQLITE_OK);
    CHECK(sqlite3_exec(raw, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(raw);
  }
  const Error error = refused({path});
  CHECK(error.kind == ErrorKind::input);
  CHECK(error.where == path);
}

TEST_CASE("--freeze, --lora and --compile are a model's; a recording has its own") {
  const auto changed = read_source({.text = "llama-tiny", .compiled = true, .frozen = {"tok"}, .lora = {8, {"wq"}}});
  REQUIRE(changed);
  CHECK(changed->model->compiled);
  CHECK(changed->model->frozen == std::vector<std::string>{"tok"});
  CHECK(changed->model->lora == LoraConfig{8, {"wq"}});
  CHECK(refused({.text = "llama-tiny", .lora = {0, {"wq"}}}).hint == "add --lora RANK");
  const test::TemporaryFolder folder;
  const std::string workload = folder.write("w.json", to_json(*generate(*preset("mlp", {64, 1}), {}, {}, 132)));
  CHECK(refused({.text = workload, .lora = {8, {}}}).what.starts_with("--lora changes what of a model is trained"));
  CHECK(refused({.text = workload, .frozen = {"fc1"}}).what.starts_with("--freeze changes"));
  CHECK(refused({.text = workload, .compiled = true}).what.starts_with("--compile changes"));
}

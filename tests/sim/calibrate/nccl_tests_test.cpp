#include "sim/calibrate/nccl_tests.hpp"

#include "sim/calibrate/nccl_size.hpp"
#include "tests/catch.hpp"
#include "tests/sim/calibrate/samples.hpp"

namespace foreshard::sim {
namespace {

Error nccl_tests_error(const std::string& text, std::string_view where = "all_gather.txt") {
  const auto read = read_measurements(text, where);
  REQUIRE_FALSE(read);
  CHECK(read.error().kind == ErrorKind::input);
  CHECK_FALSE(read.error().hint.empty());
  return read.error();
}

TEST_CASE("a table of nccl-tests gives the in-place times of an all-gather") {
  const auto read = read_measurements(kAllGatherText, "log.txt");
  REQUIRE(read);
  CHECK(read->format == "nccl-tests text");
  CHECK(read->gpu == "NVIDIA H100 80GB HBM3");
  REQUIRE(read->collectives.size() == 2);
  const CollectiveSample& sample = read->collectives[1];
  CHECK(sample.kind == CollectiveKind::all_gather);
  CHECK(sample.transport == Transport::nccl);
  CHECK(sample.ranks == 4);
  CHECK(sample.ranks_per_node == 4);
  CHECK(sample.bytes == 16777216);
  CHECK(sample.us == 61.57);
  CHECK(read->notes.empty());
}

TEST_CASE("the type column is the dtype of sums, and none of what only moves") {
  CHECK(read_measurements(kAllGatherText, "log.txt")->collectives[0].dtype == DType::bfloat16);
  const auto floats = read_measurements(kReduceScatterJson, "a.json");
  if (!floats) FAIL(floats.error().text());
  CHECK(floats->collectives[0].dtype == DType::float32);
  const auto narrow =
      read_measurements(replaced(kReduceScatterJson, R"("type":"float")", R"("type":"bfloat16")"), "a.json");
  if (!narrow) FAIL(narrow.error().text());
  CHECK(narrow->collectives[0].dtype == DType::bfloat16);
}

TEST_CASE("sizes with a letter are nccl-tests' powers of 1024") {
  const auto text = read_measurements(replaced(kAllGatherText, "    16777216  ", "         16M  "), "log.txt");
  if (!text) FAIL(text.error().text());
  CHECK(text->collectives[1].bytes == 16 * kMiB);
  CHECK_FALSE(text->collectives[1].by_pytorch);
  const auto json = read_measurements(replaced(kReduceScatterJson, R"("size":1048576)", R"("size":"1M")"), "a.json");
  if (!json) FAIL(json.error().text());
  CHECK(json->collectives[0].bytes == kMiB);
  // 17M in 61.57 us are not 272 GB/s.
  CHECK(nccl_tests_error(replaced(kAllGatherText, "    16777216  ", "         17M  ")).what.find("algbw") !=
        std::string::npos);
  CHECK(*parse_nccl_sizes("64k,1M,2g,512,1.5MiB,1MB") ==
        std::vector<Bytes>{64 * kKiB, kMiB, 2 * kGiB, 512, 3 * kMiB / 2, 1000000});
  for (const char* wrong : {"", "M", "1X", "1M,", "1MM", "-1M"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_nccl_sizes(wrong));
  }
}

TEST_CASE("launchers' prefixes, log lines and another newline change nothing") {
  for (const std::string prefix : {" 0: ", "[1,0]<stdout>:", "12: "}) {
    std::string text = "node-a:1:1 [0] NCCL INFO Bootstrap : Using eth0\n" + prefix;
    for (const char c : kAllGatherText) {
      if (c == '\n') text += '\r';
      text += c;
      if (c == '\n') text += prefix;
    }
    const auto read = read_measurements(text, "log.txt");
    INFO(prefix);
    REQUIRE(read);
    CHECK(read->collectives.size() == 2);
  }
}

TEST_CASE("without a header that names it, the file's name or the bandwidths tell the collective") {
  const std::string old = replaced(replaced(kAllGatherText, "# Collective test starting: all_gather_perf\n", ""),
                                   "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n", "");
  CHECK(read_measurements(old, "runs/all_gather_perf.4.txt")->collectives[0].kind == CollectiveKind::all_gather);
  CHECK(nccl_tests_error(old, "log.txt").what.find("which collective") != std::string::npos);
  CHECK(read_measurements(old, "runs/all_gather_perf.4.txt")->collectives[0].in_place == true);
  std::string sum = old;
  for (std::size_t at = sum.find("none"); at != std::string::npos; at = sum.find("none")) sum.replace(at, 4, " sum");
  const auto scatter = read_measurements(sum, "log.txt");
  REQUIRE(scatter);
  CHECK(scatter->collectives[0].kind == CollectiveKind::reduce_scatter);
  CHECK(scatter->collectives[0].us == 43.27);
  CHECK(scatter->collectives[0].in_place == false);
}

TEST_CASE("who asks may say the collective where the output does not") {
  const std::string old = replaced(replaced(kAllGatherText, "# Collective test starting: all_gather_perf\n", ""),
                                   "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n", "");
  const ReadOptions gather{Transport::nccl, CollectiveKind::all_gather};
  const ReadOptions exchange{Transport::nccl, CollectiveKind::all_to_all};
  // "gather" is a program whose collective no plan has.
  for (const char* where : {"ag.txt", "gather.txt"}) {
    CAPTURE(where);
    const auto read = read_measurements(old, where, gather);
    REQUIRE(read);
    CHECK(read->collectives[0].kind == CollectiveKind::all_gather);
    CHECK(read_measurements(old, where, exchange)->collectives[0].kind == CollectiveKind::all_to_all);
  }
  // What the output says itself, and a file named after a program, go before it.
  CHECK(read_measurements(kAllGatherText, "ag.txt", exchange)->collectives[0].kind == CollectiveKind::all_gather);
  CHECK(read_measurements(old, "all_gather_perf.txt", exchange)->collectives[0].kind == CollectiveKind::all_gather);
  // A busbw that is not that kind's is refused.
  CHECK_FALSE(read_measurements(old, "ag.txt", {Transport::nccl, CollectiveKind::all_reduce}));
}

TEST_CASE("several runs may follow one another, of several nodes") {
  const std::string second = replaced(replaced(kAllGatherText, "node-a device  3", "node-b device  3"),
                                      "node-a device  2", "node-b device  2");
  const auto read = read_measurements(std::string(kAllGatherText) + second, "log.txt");
  REQUIRE(read);
  REQUIRE(read->collectives.size() == 4);
  CHECK(read->collectives[1].ranks_per_node == 4);
  CHECK(read->collectives[3].ranks == 4);
  CHECK(read->collectives[3].ranks_per_node == 2);
}

TEST_CASE("all-to-alls are read as such, other collectives are left out and counted") {
  const auto exchange = read_measurements(replaced(kAllGatherText, "all_gather_perf", "alltoall_perf"), "log.txt");
  REQUIRE(exchange);
  CHECK(exchange->collectives[0].kind == CollectiveKind::all_to_all);
  const auto read = read_measurements(
      replaced(kAllGatherText, "all_gather_perf", "hypercube_perf") + std::string(kAllGatherText), "log.txt");
  REQUIRE(read);
  CHECK(read->collectives.size() == 2);
  REQUIRE(read->notes.size() == 1);
  CHECK(read->notes[0].text.find("hypercube_perf") != std::string::npos);
  CHECK(nccl_tests_error(replaced(kAllGatherText, "all_gather_perf", "hypercube_perf"), "log.txt").what ==
        "holds nothing that a profile can use");
}

TEST_CASE("damaged tables are refused with their line") {
  CHECK(nccl_tests_error(replaced(kAllGatherText, "24.81", "54.81")).where == "all_gather.txt line 14");
  CHECK(nccl_tests_error(replaced(kAllGatherText, "18.60", "37.20")).what.find("4 ranks") != std::string::npos);
  CHECK(nccl_tests_error(replaced(kAllGatherText, "18.60      0", "18.60      7")).what.find("#wrong is 7") !=
        std::string::npos);
  CHECK(nccl_tests_error(replaced(kAllGatherText, "   42.27", "   -1.00")).what.find("no numbers") !=
        std::string::npos);
  CHECK(nccl_tests_error(replaced(kAllGatherText, "node-a device  3", "node-b device  3")).what.find("host") !=
        std::string::npos);
  std::string headless(kAllGatherText);
  headless.erase(headless.find("#       size"), headless.find("     1048576") - headless.find("#       size"));
  CHECK(nccl_tests_error("# algbw busbw\n" + headless).what.find("before the heading") != std::string::npos);
  std::string nobody(kAllGatherText);
  for (std::size_t at = nobody.find("#  Rank"); at != std::string::npos; at = nobody.find("#  Rank"))
    nobody.erase(at, nobody.find('\n', at) + 1 - at);
  CHECK(nccl_tests_error(nobody).what == "the header lists 0 ranks");
}

TEST_CASE("a row shorter than a heading whose columns repeat is read, not overrun: the fuzzer found it") {
  const auto read =
      read_measurements(replaced(kAllGatherText, "    root     time   algbw   busbw #wrong     time   algbw   busbw ",
                                 "    root     time   algbw   busbw #wrong     count      type   redop    a    time   "
                                 "algbw   busbw x y redop "),
                        "all_gather.txt");
  if (!read) CHECK_FALSE(read.error().what.empty());
}

TEST_CASE("a cut table is used as far as it goes, and noted") {
  const std::string whole(kAllGatherText);
  const auto read = read_measurements(whole.substr(0, whole.find("# Out of bounds")), "log.txt");
  REQUIRE(read);
  CHECK(read->collectives.size() == 2);
  REQUIRE(read->notes.size() == 1);
  CHECK(read->notes[0].text.find("cut short") != std::string::npos);
  for (std::size_t length = 0; length < whole.size(); length += 7)
    if (const auto cut = read_measurements(whole.substr(0, length), "log.txt"); !cut)
      CHECK_FALSE(cut.error().what.empty());
}

TEST_CASE("the JSON of -J: out-of-place for reduce-scatter, hosts, and the transport from its options") {
  const auto read = read_measurements(kReduceScatterJson, "x.json");
  REQUIRE(read);
  CHECK(read->format == "nccl-tests JSON");
  REQUIRE(read->collectives.size() == 1);
  CHECK(read->collectives[0].kind == CollectiveKind::reduce_scatter);
  CHECK(read->collectives[0].transport == Transport::symmetric);
  CHECK(read->collectives[0].us == 20.0);
  CHECK(read->collectives[0].ranks == 2);
  CHECK(read->collectives[0].ranks_per_node == 1);
  const auto registered = read_measurements(replaced(kReduceScatterJson, "\"-R\",\"2\"", "\"-R1\""), "x.json");
  CHECK(registered->collectives[0].transport == Transport::nccl_registered);
  const auto zero =
      read_measurements(replaced(kReduceScatterJson, "\"-R\",\"2\"", "\"-R\",\"2\",\"-x\",\"2\""), "x.json");
  CHECK(zero->collectives[0].transport == Transport::copy_engine);
}

TEST_CASE("damaged JSON is refused with its place") {
  const auto where = [](const std::string& text) { return nccl_tests_error(text, "x.json").where; };
  CHECK(where(replaced(kReduceScatterJson, "\"time\":20.0", "\"time\":\"nan\"")) == "x.json result 0 out_of_place");
  CHECK(where(replaced(kReduceScatterJson, "52.4288", "12.4288")) == "x.json result 0");
  CHECK(where(replaced(kReduceScatterJson, "\"nwrong\":0.0", "\"nwrong\":4.0")) == "x.json result 0 out_of_place");
  CHECK(nccl_tests_error(replaced(kReduceScatterJson, "\"devices\"", "\"device\""), "x.json").what.find("devices") !=
        std::string::npos);
  const std::string whole(kReduceScatterJson);
  CHECK(nccl_tests_error(whole.substr(0, whole.size() / 2), "x.json").what ==
        "this is not valid JSON: it is cut short");
}

TEST_CASE("foreign files are refused with what would be read") {
  for (const char* text : {"", "hello", "{}", "{\"a\": 1}",
                           "\x7f"
                           "ELF",
                           "#!/bin/sh\necho 1\n"})
    CHECK(nccl_tests_error(text).hint.find("nccl-tests") != std::string::npos);
  CHECK(nccl_tests_error("{\"schema\": 2, \"name\": \"x\"}").hint.find("--base") != std::string::npos);
}

}  // namespace
}  // namespace foreshard::sim

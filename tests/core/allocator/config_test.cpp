// PYTORCH_ALLOC_CONF and the rules of versions: caching allocator 2.5 and 8.
#include "core/allocator/config.hpp"

#include "tests/catch.hpp"

namespace foreshard {
namespace {

Error error_of(std::string_view text, std::string_view pytorch = "2.11") {
  const auto config = parse_alloc_conf(text, pytorch);
  REQUIRE_FALSE(config.has_value());
  return config.error();
}

TEST_CASE("options are parsed with PyTorch's words") {
  const AllocatorConfig config =
      parse_alloc_conf(
          " max_split_size_mb : 200, garbage_collection_threshold:0.8,expandable_segments:True,"
          "per_process_memory_fraction:0.5,backend:native,pinned_num_register_threads:4")
          .value();
  CHECK(config.max_split_size == 200 * kMiB);
  CHECK(config.garbage_collection_threshold == 0.8);
  CHECK(config.expandable_segments);
  CHECK(config.per_process_memory_fraction == 0.5);
  CHECK(parse_alloc_conf("").value().max_split_size == std::numeric_limits<Bytes>::max());
}

TEST_CASE("large_segment_size_mb counts before the other options") {
  const AllocatorConfig config = parse_alloc_conf("max_split_size_mb:64,large_segment_size_mb:64").value();
  CHECK(config.large_segment_size == 64 * kMiB);
  CHECK(config.max_non_split_rounding == 64 * kMiB);
  CHECK(error_of("max_split_size_mb:63,large_segment_size_mb:64").hint.find("64") != std::string::npos);
  CHECK(parse_alloc_conf("max_non_split_rounding_mb:100").value().max_non_split_rounding == 100 * kMiB);
}

TEST_CASE("wrong options are refused with a hint") {
  CHECK(error_of("max_split_size:200").hint == "did you mean 'max_split_size_mb'?");
  CHECK(error_of("max_split_size_mb:19").what == "option max_split_size_mb does not accept \"19\"");
  CHECK(error_of("large_segment_size_mb:10").kind == ErrorKind::usage);
  CHECK(error_of("expandable_segments:true").hint == "accepted: True or False");
  CHECK(error_of("garbage_collection_threshold:1").kind == ErrorKind::usage);
  CHECK(error_of("per_process_memory_fraction:1.5").kind == ErrorKind::usage);
  CHECK(error_of("roundup_power2_divisions:3").kind == ErrorKind::usage);
  CHECK(error_of("roundup_power2_divisions:[]").kind == ErrorKind::usage);
  CHECK(error_of("roundup_power2_divisions:[256:1").what.find("closing bracket") != std::string::npos);
  CHECK(error_of("backend:cudaMallocAsync").hint == "only backend:native is modelled");
  CHECK(error_of("expandable_segments").what == "\"expandable_segments\" has no value");
  CHECK(error_of("roundup_power2_divisions:[256:1]x").what.find("comma") != std::string::npos);
}

TEST_CASE("values of pinned memory are checked as PyTorch does, and change nothing else") {
  for (const char* text :
       {"pinned_num_register_threads:1", "pinned_num_register_threads:128", "pinned_reserve_segment_size_mb:512",
        "pinned_use_cuda_host_register:True", "pinned_use_background_threads:False", "pinned_free_catch_all:True"}) {
    INFO(text);
    CHECK(parse_alloc_conf(text).has_value());
  }
  for (const char* text :
       {"pinned_num_register_threads:3", "pinned_num_register_threads:256", "pinned_num_register_threads:0",
        "pinned_num_register_threads:-1", "pinned_num_register_threads:[4]", "pinned_num_register_threads:many"}) {
    INFO(text);
    CHECK(error_of(text).hint == "accepted: a power of two, at most 128");
  }
  CHECK(error_of("pinned_reserve_segment_size_mb:0").hint == "accepted: a whole number of MiB ≥ 1");
  for (const char* key : {"pinned_use_cuda_host_register", "pinned_use_background_threads", "pinned_free_catch_all"})
    CHECK(error_of(std::string(key) + ":1").what == "option " + std::string(key) + " does not accept \"1\"");
  CHECK(error_of("pinned_num_register_thread:2").hint == "did you mean 'pinned_num_register_threads'?");
}

TEST_CASE("the rules follow the version") {
  CHECK(allocator_rules("2.11").value() == AllocatorRules{});
  CHECK(allocator_rules("2.11.0+cu130").value() == AllocatorRules{});
  const AllocatorRules old = allocator_rules("2.4.1").value();
  CHECK_FALSE(old.expandable_in_private_pools);
  CHECK_FALSE(old.use_on_oom);
  CHECK(allocator_rules("2.12").value().preemptive_oom);
  CHECK(allocator_rules("2.12").value().routing_blocks_release);
  CHECK_FALSE(allocator_rules("2.12").value().ties_by_creation);
  CHECK_FALSE(allocator_rules("2.13").value().routing_blocks_release);
  CHECK(allocator_rules("2.13").value().ties_by_creation);
  CHECK(allocator_rules("main").value() == allocator_rules("2.14").value());
  for (const std::string_view wrong : {"1.13", "2", "2.", "2.x", "2.15", "2.99", "3.0", "Main", "2.11x"})
    CHECK_FALSE(allocator_rules(wrong).has_value());
  CHECK(error_of("large_segment_size_mb:64", "2.4").kind == ErrorKind::usage);
  CHECK(error_of("throw_on_cudamalloc_oom:True", "2.11").kind == ErrorKind::usage);
  CHECK(parse_alloc_conf("throw_on_cudamalloc_oom:True", "2.12").value().throw_on_cudamalloc_oom);
}

}  // namespace
}  // namespace foreshard

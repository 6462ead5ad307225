#include "core/base/shell_word.hpp"

#include "tests/catch.hpp"

using namespace foreshard;

TEST_CASE("a shell's word is quoted where a shell would read more than the word") {
  CHECK(shell_word("expandable_segments:True,max_split_size_mb:128") ==
        "expandable_segments:True,max_split_size_mb:128");
  CHECK(shell_word("roundup_power2_divisions:[256:1,>:4]") == "'roundup_power2_divisions:[256:1,>:4]'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("") == "''");
  CHECK(shell_quoted("plain") == "'plain'");
}

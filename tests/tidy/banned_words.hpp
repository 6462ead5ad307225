// Words of our own where PyTorch, NCCL or CUDA have one. The table is banned_words.txt; a row is
//
//   WORD  WHERE  INSTEAD
//
// with two or more blanks between. WORD is a regular expression (ECMAScript) that a whole word matches, where a word is
// letters, digits and underscores: `beside` bans the word, `(\w+_)?beside(_\w+)?` names made of it too, `kMost\w*` a
// prefix. With a single blank in it, it is a phrase, found between word boundaries. Without capitals it is found in any
// case. WHERE is
//
//   identifier   in code without its comments and literals (options, JSON keys and columns stay as they are)
//   everywhere   in code, comments, literals and documents
//
// No file is excepted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/tidy/source_file.hpp"

namespace foreshard::tidy {

struct BannedWord {
  std::string pattern;
  bool everywhere = false;
  std::string instead;
};

/// The table's rows; lines that start with # and empty ones are left out. A row that cannot be read is a finding.
[[nodiscard]] std::vector<BannedWord> banned_words(const SourceFile& table, Findings& findings);

/// The lines of `file` that have a banned word, with the word and what to say.
[[nodiscard]] Findings banned_words_of(const SourceFile& file, const std::vector<BannedWord>& words);

}  // namespace foreshard::tidy

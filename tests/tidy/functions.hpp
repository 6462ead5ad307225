// Functions of a C++ file and their lengths, wherever they are defined: in a namespace, in a class, in a nested class.
#pragma once

#include "tests/tidy/source_file.hpp"

namespace foreshard::tidy {

struct FunctionExtent {
  std::size_t first = 0;  ///< the line of the first word of its definition, from 1
  std::size_t last = 0;   ///< the line of its closing brace

  [[nodiscard]] std::size_t lines() const { return last - first + 1; }
};

/// In the order of their ends. Lambdas and local classes belong to the function that they are in; a lambda that
/// initialises a variable at namespace scope counts as a function.
[[nodiscard]] std::vector<FunctionExtent> functions_of(const SourceFile& file);

}  // namespace foreshard::tidy

# foreshard.spdx.json: what the program consists of, as SPDX 2.3, installed and packed beside the LICENSE and NOTICE.
# Versions are those of the headers that this build compiles against; where the distribution's packages can be asked,
# each has the purl of its source package as well, which scanners look up in the distribution's advisories.
#
# Its time of making is SOURCE_DATE_EPOCH where that is set. A library is named here once: tests/install holds the list
# against the packages that ./dev installs, the libraries that the program asks for, and NOTICE.
include_guard()

# foreshard_define(OUT FILE NAME): the value of a macro of a header, without quotes.
function(foreshard_define out file name)
  file(STRINGS ${file} line REGEX "#define +${name} " LIMIT_COUNT 1)
  string(REGEX REPLACE "^ *#define +${name} +\"?([^ \"]+).*" "\\1" value "${line}")
  set(${out} "${value}" PARENT_SCOPE)
endfunction()

# foreshard_part(NAME PACKAGE LICENSE VERSION RELATIONSHIP): NAME as in NOTICE; PACKAGE as Debian and Ubuntu call it.
set_property(GLOBAL PROPERTY FORESHARD_PARTS "")
set_property(GLOBAL PROPERTY FORESHARD_PART_RELATIONS "")
function(foreshard_part name package license version relationship)
  set(purl "")
  find_program(FORESHARD_DPKG_QUERY dpkg-query)
  if(FORESHARD_DPKG_QUERY)
    execute_process(COMMAND ${FORESHARD_DPKG_QUERY} -W "-f=\${source:Package} \${source:Version} " ${package}
                    OUTPUT_VARIABLE source ERROR_QUIET RESULT_VARIABLE status)
    if(status EQUAL 0 AND source MATCHES "^([^ ]+) ([^ ]+) ")
      string(REPLACE "+" "%2B" at "${CMAKE_MATCH_2}")
      set(purl ", \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\", \"referenceType\": \"purl\",
     \"referenceLocator\": \"pkg:deb/${FORESHARD_DISTRIBUTION}/${CMAKE_MATCH_1}@${at}?arch=source\"}]")
    endif()
  endif()
  string(REGEX REPLACE "[^A-Za-z0-9]+" "-" id "SPDXRef-${name}")
  set_property(GLOBAL APPEND_STRING PROPERTY FORESHARD_PARTS ",
    {\"SPDXID\": \"${id}\", \"name\": \"${name}\", \"versionInfo\": \"${version}\",
     \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false, \"licenseConcluded\": \"${license}\",
     \"licenseDeclared\": \"${license}\",
     \"copyrightText\": \"NOASSERTION\", \"comment\": \"${package}\"${purl}}")
  set_property(GLOBAL APPEND_STRING PROPERTY FORESHARD_PART_RELATIONS ",
    {\"spdxElementId\": \"SPDXRef-foreshard\", \"relationshipType\": \"${relationship}\",
     \"relatedSpdxElement\": \"${id}\"}")
endfunction()

# foreshard_sbom(FILE): for the program `foreshard`. foreshard-gpu, which no package holds, links CUDA besides; what the
# wheel's libforeshard_collectives.so holds stands in NOTICE alone.
function(foreshard_sbom file)
  set(FORESHARD_DISTRIBUTION debian)
  if(EXISTS /etc/os-release)
    file(STRINGS /etc/os-release line REGEX "^ID=")
    string(REGEX REPLACE "^ID=\"?([^\"]*)\"?$" "\\1" FORESHARD_DISTRIBUTION "${line}")
  endif()
  find_path(FORESHARD_XXHASH_INCLUDE xxhash.h REQUIRED)
  foreach(part MAJOR MINOR RELEASE)
    foreshard_define(xxhash_${part} ${FORESHARD_XXHASH_INCLUDE}/xxhash.h XXH_VERSION_${part})
  endforeach()
  foreshard_define(sodium ${FORESHARD_SODIUM_INCLUDE}/sodium/version.h SODIUM_VERSION_STRING)
  find_path(FORESHARD_FMT_CORE fmt/core.h REQUIRED)
  foreshard_define(fmt ${FORESHARD_FMT_CORE}/fmt/core.h FMT_VERSION)
  math(EXPR fmt_major "${fmt} / 10000")
  math(EXPR fmt_minor "${fmt} / 100 % 100")
  math(EXPR fmt_patch "${fmt} % 100")

  set(linked STATIC_LINK)
  if(FORESHARD_STATIC_DEPENDENCIES STREQUAL "OFF")
    set(linked DYNAMIC_LINK)
  endif()
  foreshard_part("CLI11" libcli11-dev BSD-3-Clause "${CLI11_VERSION}" STATIC_LINK)
  set(boost libboost${Boost_VERSION_MAJOR}.${Boost_VERSION_MINOR}-dev)
  foreshard_part("Boost" ${boost} BSL-1.0 "${Boost_VERSION}" STATIC_LINK)
  foreshard_part("fmt" libfmt-dev MIT "${fmt_major}.${fmt_minor}.${fmt_patch}" ${linked})
  foreshard_part("JSON for Modern C++" nlohmann-json3-dev MIT "${nlohmann_json_VERSION}" STATIC_LINK)
  foreshard_part("liblzma" liblzma-dev LicenseRef-public-domain "${LIBLZMA_VERSION_STRING}" ${linked})
  foreshard_part("libsodium" libsodium-dev ISC "${sodium}" ${linked})
  foreshard_part("pugixml" libpugixml-dev MIT "${pugixml_VERSION}" ${linked})
  foreshard_part("simdjson" libsimdjson-dev Apache-2.0 "${simdjson_VERSION}" DYNAMIC_LINK)
  foreshard_part("SQLite" libsqlite3-dev blessing "${SQLite3_VERSION}" ${linked})
  foreshard_part("tl::expected" libexpected-dev CC0-1.0 "${tl-expected_VERSION}" STATIC_LINK)
  foreshard_part("xxHash" libxxhash-dev BSD-2-Clause "${xxhash_MAJOR}.${xxhash_MINOR}.${xxhash_RELEASE}" STATIC_LINK)
  foreshard_part("zlib" zlib1g-dev Zlib "${ZLIB_VERSION_STRING}" ${linked})

  get_property(parts GLOBAL PROPERTY FORESHARD_PARTS)
  get_property(relations GLOBAL PROPERTY FORESHARD_PART_RELATIONS)
  string(TIMESTAMP made "%Y-%m-%dT%H:%M:%SZ" UTC)
  string(SHA256 name "${PROJECT_VERSION} ${made} ${parts}")
  string(SUBSTRING "${name}" 0 32 name)
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT "{
  \"spdxVersion\": \"SPDX-2.3\", \"dataLicense\": \"CC0-1.0\", \"SPDXID\": \"SPDXRef-DOCUMENT\",
  \"name\": \"foreshard-@PROJECT_VERSION@\", \"documentNamespace\": \"https://foreshard.invalid/spdx/@name@\",
  \"creationInfo\": {\"created\": \"@made@\", \"creators\": [\"Tool: foreshard-cmake-@PROJECT_VERSION@\"],
    \"comment\":
    \"compiled by @CMAKE_CXX_COMPILER_ID@ @CMAKE_CXX_COMPILER_VERSION@, whose C++ library the program needs\"},
  \"hasExtractedLicensingInfos\": [{\"licenseId\": \"LicenseRef-public-domain\",
    \"extractedText\": \"liblzma has been put into the public domain by its authors.\"}],
  \"packages\": [
    {\"SPDXID\": \"SPDXRef-foreshard\", \"name\": \"foreshard\", \"versionInfo\": \"@PROJECT_VERSION@\",
     \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false, \"licenseConcluded\": \"Apache-2.0\",
     \"licenseDeclared\": \"Apache-2.0\", \"copyrightText\": \"The foreshard authors\"}@parts@],
  \"relationships\": [
    {\"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\",
     \"relatedSpdxElement\": \"SPDXRef-foreshard\"}@relations@]
}
")
endfunction()

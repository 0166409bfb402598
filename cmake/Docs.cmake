# Target docs: the API reference, with every Doxygen warning an error; and tests labelled docs.
include_guard(GLOBAL)

find_package(Doxygen QUIET)
if(NOT DOXYGEN_FOUND)
  message(FATAL_ERROR "RUNGS_BUILD_DOCS needs Doxygen: install doxygen, or configure without it.")
endif()
configure_file(docs/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
add_custom_target(docs VERBATIM
  COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/docs
  COMMAND Doxygen::doxygen ${PROJECT_BINARY_DIR}/Doxyfile
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  COMMENT "API reference: ${PROJECT_BINARY_DIR}/docs/html/index.html")
if(RUNGS_BUILD_TESTS)
  add_test(NAME docs.reference COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target docs)
  set_tests_properties(docs.reference PROPERTIES LABELS docs TIMEOUT 600)
endif()

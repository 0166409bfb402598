# rdma-core brings a pkg-config file only. Makes ibverbs::ibverbs.
include(FindPackageHandleStandardArgs)
find_path(ibverbs_INCLUDE_DIR infiniband/verbs.h)
find_library(ibverbs_LIBRARY ibverbs)
mark_as_advanced(ibverbs_INCLUDE_DIR ibverbs_LIBRARY)
find_package_handle_standard_args(ibverbs REQUIRED_VARS ibverbs_LIBRARY ibverbs_INCLUDE_DIR)
if(ibverbs_FOUND AND NOT TARGET ibverbs::ibverbs)
  add_library(ibverbs::ibverbs UNKNOWN IMPORTED)
  set_target_properties(ibverbs::ibverbs PROPERTIES
    IMPORTED_LOCATION ${ibverbs_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ibverbs_INCLUDE_DIR})
endif()

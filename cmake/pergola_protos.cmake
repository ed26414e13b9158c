# pergola_protos(<path>...): compiles proto/<path>.proto to messages and gRPC stubs in one library,
# pergola_protos, included as "<path>.pb.h" and "<path>.grpc.pb.h".
function(pergola_protos)
  set(generated "${CMAKE_BINARY_DIR}/protos")
  set(sources)
  foreach(name IN LISTS ARGN)
    set(proto "${CMAKE_SOURCE_DIR}/proto/${name}.proto")
    set(stem "${generated}/${name}")
    set(outputs "${stem}.pb.h" "${stem}.pb.cc" "${stem}.grpc.pb.h" "${stem}.grpc.pb.cc")
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND "${CMAKE_COMMAND}" -E make_directory "${generated}"
      COMMAND "${PERGOLA_PROTOC}" "--proto_path=${CMAKE_SOURCE_DIR}/proto" "--cpp_out=${generated}"
              "--grpc_out=${generated}" "--plugin=protoc-gen-grpc=${PERGOLA_GRPC_PLUGIN}" "${proto}"
      DEPENDS "${proto}"
      VERBATIM)
    list(APPEND sources ${outputs})
  endforeach()
  add_library(pergola_protos STATIC ${sources})
  # Generated code is not held to the project's warnings, nor are the headers it includes.
  target_include_directories(pergola_protos SYSTEM PUBLIC "${generated}")
  target_compile_options(pergola_protos PRIVATE -w)
endfunction()

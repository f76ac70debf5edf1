"""Files that a user names, and those of run folders, are opened here.

What is written is never written through a symbolic link. What is read is a regular file, whoever made the folder: a
FIFO is not waited for. What is wrong is a UsageError that names the path.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
import stat
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO, Any

from runner.data.errors import CannotRunHere, UsageError


def no_link(path: Path) -> Path:
    """The same path. Raises UsageError where it is a symbolic link, dangling or not."""
    if path.is_symlink():
        raise UsageError(
            f"{path} is a symbolic link to {os.readlink(path)}. vpneval does not write a run folder's files "
            "through links. Remove the link, or choose another --out"
        )
    return path


def is_there(path: Path) -> bool:
    """Does something exist under this name? Raises UsageError where that cannot be known."""
    with _telling_errors(path):
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


def is_folder(path: Path) -> bool:
    """Is there a folder under this name? Raises UsageError where that cannot be known."""
    return is_there(path) and path.is_dir()


def open_to_read(path: Path) -> IO[bytes]:
    """Open a file as ``path.open("rb")`` does. Raises UsageError where ``path`` is no file, does not exist, may not be
    read, or is what Git LFS leaves in a file's place."""
    with _telling_errors(path):
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        kind = os.fstat(opened).st_mode
        if stat.S_ISREG(kind):
            if os.pread(opened, len(LFS), 0) != LFS:
                return open(opened, "rb")
            os.close(opened)
            raise UsageError(f"{short(path)} is a pointer of Git LFS, not the file itself. Get it with: git lfs pull")
        os.close(opened)
        raise UsageError(f"{short(path)} is {KINDS.get(stat.S_IFMT(kind), 'no file')}; a file is needed here")


def read_bytes(path: Path, most_bytes: int | None = None) -> bytes:
    """Read a file as ``path.read_bytes()`` does. Raises as ``open_to_read`` does, and UsageError for one larger than
    ``most_bytes``; where these are not given, than MOST_BYTES."""
    most = most_bytes or MOST_BYTES
    with open_to_read(path) as file, _telling_errors(path):
        if (size := os.fstat(file.fileno()).st_size) > most:
            raise UsageError(f"{short(path)} has {size} bytes; at most {most} are read. Is it the right file?")
        return file.read()


def read_text(path: Path, most_bytes: int | None = None) -> str:
    """Read a text that a user has written: UTF-8, with or without a byte order mark. Raises as ``read_bytes`` does, and
    UnicodeDecodeError."""
    return read_bytes(path, most_bytes).decode("utf-8-sig")


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a file, whatever its size. Raises as ``open_to_read`` does, and UsageError for a line longer than
    MOST_BYTES, as of a file with a hole (lseek(2))."""
    with open_to_read(path) as file:
        for number in count(1):
            with _telling_errors(path):
                line = file.readline(MOST_BYTES + 1)
            if len(line) > MOST_BYTES:
                raise UsageError(
                    f"{short(path)}, line {number}: it is longer than {MOST_BYTES} bytes. No run writes such lines: "
                    "take that line out, or measure again"
                )
            if not line:
                return
            yield line


def cut_torn(path: Path) -> None:
    """Cut off a last line that was not written whole."""
    with open_file(path, "r+b") as file:
        end = size = file.seek(0, os.SEEK_END)
        while end > 0:
            begin = max(0, end - CHUNK)
            file.seek(begin)
            part = file.read(end - begin)
            if (newline := part.rfind(b"\n")) >= 0:
                end = begin + newline + 1
                break
            end = begin
        if end != size:
            file.truncate(end)


def from_json(text: str | bytes) -> Any:
    """Parse as ``json.loads`` does. Raises ValueError, and nothing else, for malformed text."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def from_toml(text: str) -> dict[str, Any]:
    """Parse as ``tomllib.loads`` does. Raises ValueError, and nothing else, for malformed text, and for a line longer
    than MOST_LINE: a key of so many dots takes memory in their number squared."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MOST_LINE:
            raise ValueError(f"line {number} is longer than {MOST_LINE} characters")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def at_home(path: Path) -> Path:
    """The path, with the user's home in place of a leading ``~``. Raises CannotRunHere where the user has no home: in a
    container or a service, the user may be unknown to /etc/passwd."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise CannotRunHere(
            f"{path}: user {os.getuid()} has no home directory here: HOME is not set, and /etc/passwd has no such "
            "user. Set HOME, or VPNEVAL_CACHE to a folder of this user's"
        ) from None


def short(path: Path) -> str:
    """The path for a message: only its two ends where it is very long."""
    text = str(path)
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}…{text[-LONGEST // 2 :]}"


def word(path: Path | str) -> str:
    """The path as a word of a command that a reader may paste into a shell."""
    return shlex.quote(str(path))


LFS = b"version https://git-lfs.github.com/spec/"
MOST_BYTES = 1 << 28  # of a file that is read as a whole, and of a line
CHUNK = 1 << 16
MOST_LINE = 1 << 12  # characters, of TOML
LONGEST = 300  # characters of a path in a message
KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device"}
HELP = {
    errno.EACCES: "; read it as its owner, or have its owner allow it: chmod",
    errno.EPERM: "; read it as its owner, or have its owner allow it: chmod",
    errno.ENAMETOOLONG: f"; {os.pathconf('/', 'PC_NAME_MAX')} bytes a name and {os.pathconf('/', 'PC_PATH_MAX')} "
    "a path are the most",
}


@contextmanager
def _telling_errors(path: Path) -> Iterator[None]:
    """The system's error about ``path``, as a UsageError."""
    try:
        yield
    except OSError as error:
        why = f"{error.strerror}{HELP.get(error.errno or 0, '')}"
        raise UsageError(f"{short(path)} cannot be read: {why}") from None
    except ValueError:  # Python's, for a zero byte in the name
        raise UsageError(f"{str(path)!r} is not a valid file name") from None


def open_file(path: Path, mode: str, buffering: int = -1) -> IO[Any]:
    """Open a file for writing, as ``path.open`` does. Raises UsageError where ``path`` is a link or no file, and
    OSError."""
    return open(path, mode, buffering, opener=_open)


def write_text(path: Path, text: str) -> None:
    """Write a file as ``path.write_text`` does. Raises as ``open_file`` does."""
    with open_file(path, "w") as file:
        file.write(text)


def hold_lock(file: IO[Any] | int, path: Path | str = "", *, shared: bool = False, wait: bool = True) -> bool:
    """Lock an open file or folder. The kernel releases the lock when this process ends, however it ends. Returns False,
    without ``wait``, where another process has the lock. Raises CannotRunHere where the file system has no locks
    (flock(2))."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        name = path or (file if isinstance(file, int) else file.name)
        raise CannotRunHere(
            f"{name} cannot be locked: {error.strerror}. Its file system has no locks, as NFS without lockd, or Lustre "
            "without -o flock. Use a folder on a local disk (--out, VPNEVAL_CACHE or TMPDIR name it)"
        ) from None
    return True


def await_lock(file: IO[Any], say: Callable[[str], object]) -> None:
    """Lock an open file. Where another process has the lock, ``say`` is told which one is waited for. Raises as
    ``hold_lock``."""
    if not hold_lock(file, wait=False):
        holder = holder_of(file)
        say(f"vpneval waits for the lock {short(Path(file.name))}, which {holder or 'another process'} holds")
        hold_lock(file)


def holder_of(file: IO[Any], locks: Path = Path("/proc/locks"), proc: Path = Path("/proc")) -> str:
    """Who holds the lock of an open file: the process and its command, in words; or "" (proc_locks(5))."""
    with suppress(OSError):
        about = os.fstat(file.fileno())
        wanted = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
        for line in locks.read_text().splitlines():
            words = line.split()
            if len(words) > 5 and words[1] == "FLOCK" and words[5] == wanted and words[4] != "0":
                command = (proc / words[4] / "cmdline").read_bytes()[:80].replace(b"\0", b" ").decode(errors="replace")
                return f"process {words[4]} ({''.join(filter(str.isprintable, command)).strip()})"
    return ""


def _open(name: str, flags: int) -> int:
    path = Path(name)
    try:
        # Without waiting for somebody to read a FIFO; and what is no file is not emptied.
        opened = os.open(name, flags & ~os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            no_link(path)
        if error.errno in (errno.ENXIO, errno.EISDIR):
            raise UsageError(f"{path} is not a file. Remove it, or choose another --out") from None
        raise
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise UsageError(f"{path} is not a file. Remove it, or choose another --out")
    if flags & os.O_TRUNC:
        os.truncate(opened, 0)
    return opened

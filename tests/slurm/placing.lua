-- SPDX-License-Identifier: GPL-2.0
--
-- packaging/slurm/loga.lua outside Slurm: jobs, tables and clocks of every kind. Arguments: the
-- path of loga.lua, and a folder to write tables into. Prints ok and FAIL lines.

local script, folder = arg[1], arg[2]
local clock = 1700000000
local logged = 0
os.time = function() return clock end
local informed = {}
slurm = {
	jobs = {},
	log_error = function() logged = logged + 1 end,
	log_info = function(_, line) informed[#informed + 1] = line end,
}

local loga

local function write(content)
	local file = assert(io.open(loga.path, "w"))
	file:write(content)
	file:close()
end

-- A script without memory, and a table.
local function fresh(content)
	loga = dofile(script)
	loga.path = folder .. "/table"
	slurm.jobs = {}
	logged = 0
	os.remove(loga.path)
	if content then
		write(content)
	end
end

local function table_of(rows, time)
	return "# loga-slurm-table 2 " .. (time or clock) .. "\n" .. rows
end

local ROWS = "x9 0 0.000 1 4 8 1000\nn1 1 0.100 1 4 8 1000\nn2 0 0.300 1 4 8 1000\nn1 0 0.500 1 4 8 1000\n"
local PARTS = {
	main = { nodes = "n[1-3]", flag_default = 1 },
	wide = { nodes = "x[1-9],n1", flag_default = 0 },
}
local UNSET = 4294967294

local function job(fields)
	local all = {
		tres_per_node = "gres:shard:1", min_nodes = UNSET, min_cpus = 1, num_tasks = UNSET,
		cpus_per_task = 65534, begin_time = 0, priority = UNSET, het_job_offset = UNSET,
	}
	for name, value in pairs(fields or {}) do
		all[name] = value
	end
	return all
end

local function check(what, holds)
	print((holds and "ok   slurm script: " or "FAIL slurm script: ") .. what)
end

-- Slurm takes a job, which waits, and shows it from then on.
local jobs = 0
local function accept(one)
	jobs = jobs + 1
	local record = {
		tres_per_node = one.tres_per_node, admin_comment = one.admin_comment, job_state = 0,
		submit_time = clock, partition = one.partition or "main", priority = 5,
	}
	slurm.jobs[jobs] = record
	return record
end

-- Whether a job with these fields goes to a node and a GPU; to none if node is absent.
local function goes(fields, node, gpu, parts)
	local one = job(fields)
	local before = job(fields)
	local got, at = loga.place(one, parts or PARTS, 1000)
	if node then
		local wanted = before.tres_per_node:match("^gres.%l+") .. ":g" .. gpu .. ":"
		if slurm.jobs then
			accept(one)
		end
		return got == node and at == gpu and one.req_nodes == node and
			one.tres_per_node:sub(1, #wanted) == wanted
	end
	for name, value in pairs(one) do
		if before[name] ~= value then
			return false
		end
	end
	return got == nil
end

fresh(table_of(ROWS))
check("job goes to the least score of its partition", goes({}, "n1", 1))
check("choice counts as load", goes({}, "n2", 0) and goes({}, "n1", 1))
clock = clock + 60
fresh(table_of(ROWS))
check("nodes of another partition count there", goes({ partition = "wide" }, "x9", 0))
check("newer spelling is kept", goes({ tres_per_node = "gres/shard:2" }, "n1", 1))
check("shards without a count are one", goes({ tres_per_node = "gres:shard" }, "n2", 0))

-- Four shards on n1's GPU 1, of which it gives all.
fresh(table_of("n1 1 0.100 1 4 8 1000\n"))
check("claims take shards", goes({ tres_per_node = "gres:shard:3" }, "n1", 1)
	and goes({ tres_per_node = "gres:shard:2" }) and goes({}, "n1", 1) and goes({}))
clock = clock + 61
fresh(table_of("n1 1 0.100 1 4 8 1000\n"))
goes({ tres_per_node = "gres:shard:4" }, "n1", 1)
clock = clock + 59
write(table_of("n1 1 0.100 1 4 8 1000\n"))
local held = goes({})
clock = clock + 1
write(table_of("n1 1 0.100 1 4 8 1000\n"))
check("claims last a minute", held and goes({}, "n1", 1))
clock = clock + 61
fresh(table_of("n1 1 0.100 1 4 8 1000\n"))
slurm.jobs = {
	[-7] = { tres_per_node = "gres:shard:g1:2", nodes = "n1", job_state = 1, submit_time = clock - 900 },
	[-8] = { tres_per_node = "gres:shard:1", nodes = "n1", job_state = 1, submit_time = clock - 2 },
	[-9] = { tres_per_node = "gres:shard:g1:4", nodes = "n1", job_state = 3, submit_time = clock - 900 },
}
check("jobs that run take shards", goes({ tres_per_node = "gres:shard:2" }) and goes({}, "n1", 1))

fresh(table_of(ROWS))
check("job that needs more than a node has free is left alone",
	goes({ min_cpus = 9 }) and goes({ num_tasks = 3, cpus_per_task = 3 })
	and goes({ min_mem_per_node = 1001 }) and goes({ min_mem_per_cpu = 501, min_cpus = 2 })
	and goes({ min_cpus = 8, min_mem_per_node = 1000 }, "n1", 1))

local fields = {
	req_nodes = "n3", exc_nodes = "n1", features = "a", reservation = "r", array_inx = "1-5",
	dependency = "afterok:1", tres_per_job = "gres:gpu:1", tres_per_task = "gres:gpu:1",
	tres_per_socket = "gres:gpu:1", min_nodes = 2, begin_time = clock + 100, priority = 0,
	het_job_offset = 1, partition = "main,wide", clusters = "b", cpus_per_tres = "gres:gpu:2",
	mem_per_tres = "gres:gpu:100", shared = 0,
}
for name, value in pairs(fields) do
	fresh(table_of(ROWS))
	check("job with " .. name .. " is left alone", goes({ [name] = value }))
end

local asked = {
	"gres:gpu:2", "gres:gpu:g0:1", "gres:shard:g0:1", "gres:shard:0", "gres:shard:-1", "gres:shard:99999",
	"gres:shard:1,gres:gpu:1", "gres:shard:1;os.exit(1)", "gres:shard:1\n", "gres:shard:%d",
	"shard:1", "", ("gres:shard:1"):rep(10000), "gres:shard:1e1", 7, true,
}
local left = true
fresh(table_of(ROWS))
for _, value in ipairs(asked) do
	left = left and goes({ tres_per_node = value })
end
left = left and loga.place({}, PARTS, 1) == nil
check("anything but plain shards is left alone", left and logged == 0)

fresh(table_of(ROWS))
local hostile = {
	partition = { "%d", ("x"):rep(100000), "main\n", "[", "]", "n[1-3", 5, {} },
	num_tasks = { -1, 0 / 0, 1 / 0, 1e300, "1", {} },
	min_cpus = { -1, 0 / 0, 1 / 0, 1e300, {} },
	features = { {}, 5 },
	req_nodes = { {} },
}
local ran = true
for name, values in pairs(hostile) do
	for _, value in ipairs(values) do
		local before = logged
		local returned = pcall(loga.place, job({ [name] = value }), PARTS, 0)
		ran = ran and returned and logged - before <= 1
	end
end
check("senseless fields raise nothing", ran)

local false_tables = {
	["an empty table"] = "",
	["a table without an end"] = table_of(ROWS):sub(1, -2),
	["a table of another version"] = (table_of(ROWS):gsub("table 2", "table 1")),
	["a row too short"] = table_of("n1 0 0.5 1\n"),
	["a row too long"] = table_of("n1 0 0.5 1 4 8 1000 7\n"),
	["a row with a command"] = table_of("n1 $(reboot) 0.5 1 4 8 1000\n"),
	["a score above one"] = table_of("n1 0 1.500 1 4 8 1000\n"),
	["a score that is no number"] = table_of("n1 0 nan 1 4 8 1000\n"),
	["a negative number of shards"] = table_of("n1 0 0.500 1 -4 8 1000\n"),
	["too many rows"] = table_of(("y1 0 0.5 1 4 8 1\n"):rep(16385)),
	["a table of three megabytes"] = table_of(("x"):rep(3 * 1024 * 1024) .. "\n"),
	["a table that is not in order"] = table_of("n1 0 0.900 1 4 0 0\nn1 1 0.100 1 4 8 1000\n"),
	["bytes"] = ("\0\255\n"):rep(100),
	["a full row and a false one"] = table_of("n1 0 0.100 1 4 0 0\nn1 1\n"),
}
for what, content in pairs(false_tables) do
	fresh(content)
	check(what .. " changes nothing", goes({}) and goes({}) and logged == 1)
end

-- A sound row, as long as it may be, and by a byte longer.
local function padded(size)
	local shell = #table_of("n1 0 0. 1 4 8 1000\n")
	return table_of("n1 0 0." .. ("0"):rep(size - shell) .. " 1 4 8 1000\n")
end
fresh(padded(2 * 1024 * 1024))
local whole = goes({}, "n1", 0)
fresh(padded(2 * 1024 * 1024 + 1))
check("no more than 2 MiB are read", whole and goes({}) and logged == 1)

fresh()
check("absent table changes nothing", goes({}) and logged == 0)
fresh(table_of(ROWS, clock - 30))
check("table of 30 s is used, but not rows whose figures are older", goes({}))
fresh(table_of("n1 0 0.5 0 4 8 1000\n", clock - 30))
check("table of 30 s is used", goes({}, "n1", 0))
fresh(table_of("n1 0 0.5 0 4 8 1000\n", clock - 31))
local _, why = loga.place(job(), PARTS, 1)
check("table of 31 s changes nothing", goes({}) and why == "old table" and logged == 0)
fresh(table_of(ROWS, clock + 31))
check("table from the future changes nothing", goes({}))
fresh(table_of("n1 0 0.5 0 - - -\n"))
check("GPU that the controller does not know is not chosen", goes({}))
fresh(table_of("n1 0 0.5 0 4 8 1000\n"))
goes({}, "n1", 0)
loga.path = folder
check("folder in place of the table changes nothing", goes({}))

fresh(table_of(ROWS))
local late = { tres_per_node = "gres:shard:1", job_state = 0, submit_time = clock - 61, partition = "main", priority = 5 }
slurm.jobs = { [-1] = late }
check("long queue of the partition turns placing off", goes({}) and goes({ partition = "wide" }, "x9", 0))
late.submit_time = clock - 59
check("short queue does not", goes({}, "n1", 1))
late.submit_time, late.priority = clock - 900, 0
check("held jobs are no queue", goes({}, "n2", 0))
late.priority, late.tres_per_node = 5, nil
check("jobs without GPUs are no queue", goes({}, "n1", 1))
local many = {}
for at = 1, 10001 do
	many[at] = {}
end
slurm.jobs = many
check("very many jobs turn placing off", goes({}))

fresh(table_of(ROWS))
slurm.jobs = nil
check("Slurm without a list of jobs places", goes({}, "n1", 1))
fresh(table_of(ROWS))
local fields_of = job()
local sealed = setmetatable({}, {
	__index = fields_of,
	__newindex = function(_, name, value)
		if name == "req_nodes" then
			error("read only")
		end
		fields_of[name] = value
	end,
})
check("field that cannot be set leaves the others", loga.place(sealed, PARTS, 1) == nil
	and logged == 1 and fields_of.tres_per_node == "gres:shard:1")
loga.place(setmetatable({}, { __index = function() error("x") end }), PARTS, 1)
clock = clock + 61
loga.place(nil, nil, nil)
check("errors are logged once a minute", logged == 2)

local lists = {
	{ "n[1-3]", "n1", true }, { "n[1-3]", "n4", false }, { "n[01-10]", "n7", false },
	{ "n[01-10]", "n07", true }, { "n[8-12]", "n10", true }, { "a,n[1,5-6],b", "n5", true },
	{ "a,n[1,5-6],b", "n2", false }, { "a,n[1,5-6],b", "b", true }, { "n1-ib", "n1-ib", true },
	{ "n[1-3]-ib", "n2-ib", true }, { "n[1-3]-ib", "n2", false }, { "r[1-2]n[1-2]", "r1n1", false },
	{ "n[1-3", "n1", false }, { "n1]", "n1", false }, { "", "n1", false }, { "%a+", "n1", false },
	{ "n[1-3]", "n", false }, { "n[1-3]", "n1x", false }, { "n[--]", "n1", false },
}
local right = true
local tables = dofile((script:gsub("loga%.lua$", "loga_table.lua")))
for _, case in ipairs(lists) do
	if tables.names(tables.list(case[1]), case[2]) ~= case[3] then
		right = false
		print("     " .. case[1] .. " and " .. case[2])
	end
end
check("names are found in lists of nodes", right)

-- Six GPUs that are free, 24 jobs: four each.
local rows = ""
for node = 1, 3 do
	rows = rows .. "n" .. node .. " 0 0.000 0 9 99 9999\nn" .. node .. " 1 0.000 0 9 99 9999\n"
end
fresh(table_of(rows))
local counts, most = {}, 0
for _ = 1, 24 do
	local node, gpu = loga.place(job(), PARTS, 1)
	local key = tostring(node) .. tostring(gpu)
	counts[key] = (counts[key] or 0) + 1
	most = math.max(most, counts[key])
end
check("jobs at once spread evenly", most == 4)

-- Choices whose jobs Slurm has refused.
local ONE_ROW = "n1 1 0.100 1 40 99 9999\n"
local function choose_only(user)
	local node, why = loga.place(job(), PARTS, user)
	return node ~= nil, why
end
local function later(seconds, rows)
	clock = clock + seconds
	write(table_of(rows))
end
fresh(table_of("n1 1 0.100 1 1 8 1000\n"))
local first, second = choose_only(1), choose_only(2)
later(10, "n1 1 0.100 1 1 8 1000\n")
check("choice of a job that Slurm refused ends after ten seconds", first and not second and choose_only(2))
fresh(table_of(ONE_ROW))
local chosen, reason = 0, nil
for _ = 1, 40 do
	local took, why = choose_only(1)
	chosen, reason = chosen + (took and 1 or 0), why
end
check("user whose jobs are refused has 32 choices a minute", chosen == 32
	and reason == "too many claims" and choose_only(2))
later(59, ONE_ROW)
local still = choose_only(1)
later(1, ONE_ROW)
check("and is placed again after it", not still and choose_only(1))
fresh(table_of(ONE_ROW))
local all = true
for _ = 1, 40 do
	all = all and goes({}, "n1", 1)
end
check("user whose jobs are taken has no such limit", all)

-- Jobs that end: cancelled, failed, completed, gone.
for what, ends in pairs({
	["was cancelled"] = function(record) record.job_state = 4 end,
	["failed"] = function(record) record.job_state = 5 end,
	["completes"] = function(record) record.job_state = 3 + 32768 end,
	["is gone"] = function() slurm.jobs = {} end,
}) do
	fresh(table_of("n1 1 0.100 1 4 8 1000\n"))
	local one = job({ tres_per_node = "gres:shard:4" })
	loga.place(one, PARTS, 1)
	local record = accept(one)
	local full = goes({})
	-- A Prolog that runs.
	record.job_state, record.nodes, record.gres_used = 1 + 16384, "n1", "shard:g0:0,shard:g1:4"
	full = full and goes({})
	ends(record)
	local gone = goes({}, "n1", 1)
	-- Before Slurm shows it.
	fresh(table_of("n1 1 0.100 1 4 8 1000\n"))
	one = job({ tres_per_node = "gres:shard:4" })
	loga.place(one, PARTS, 1)
	ends(accept(one))
	check("job that " .. what .. " leaves no claim", full and gone and
		(what == "is gone" or goes({}, "n1", 1)))
end
fresh(table_of("n1 1 0.100 1 4 8 1000\n"))
local marked = job({ admin_comment = "from the site" })
loga.place(marked, PARTS, 1)
check("AdminComment of the site stays", marked.admin_comment:match("^from the site; loga: chose n1 g1 %(%d+%-%d+%)$"))

local GPU = { tres_per_node = "gres:gpu:1" }
-- Another controller, which has the same jobs and remembers nothing.
local function another()
	loga = dofile(script)
	loga.path = folder .. "/table"
end
fresh(table_of("n1 1 0.100 1 4 8 1000\nn1 0 0.200 1 4 8 1000\nn2 0 0.600 1 4 8 1000\n"))
local went = goes({ tres_per_node = "gres:shard:4" }, "n1", 1)
another()
check("choices of a controller before count, and their shards", went and goes({}, "n1", 0)
	and goes({}, "n1", 0) and goes({}, "n1", 0))
another()
-- Three on one GPU, each with a mark of its own, though both began in the same second.
check("and those of two before it", goes({}, "n2", 0) and goes({}, "n1", 0))
fresh(table_of("n1 1 0.100 1 4 8 1000\nn1 0 0.200 1 4 8 1000\n"))
went = goes(GPU, "n1", 1)
another()
check("also of a whole GPU", went and goes({}, "n1", 0))
fresh(table_of(ROWS))
goes({ tres_per_node = "gres:shard:4" }, "n1", 1)
another()
slurm.jobs[jobs].job_state = 3
check("but not of jobs that have ended", goes({}, "n1", 1))
fresh(table_of("n1 1 0.100 1 4 8 1000\nn1 0 0.500 1 4 8 1000\n"))
goes({}, "n1", 1)
another()
later(59, "n1 1 0.100 1 4 8 1000\nn1 0 0.500 1 4 8 1000\n")
local counted = goes({}, "n1", 1) and goes({}, "n1", 0)
fresh(table_of("n1 1 0.100 1 4 8 1000\nn1 0 0.500 1 4 8 1000\n"))
goes({}, "n1", 1)
goes({}, "n1", 1)
another()
later(60, "n1 1 0.100 1 4 8 1000\nn1 0 0.500 1 4 8 1000\n")
check("nor of those older than a minute", counted and goes({}, "n1", 1))

-- Where jobs of no type run, Slurm says.
fresh(table_of("n1 1 0.100 1 4 8 1000\nn1 0 0.500 1 4 8 1000\n"))
slurm.jobs = { [-1] = {
	tres_per_node = "gres:shard:4", gres_used = "shard:g0:0,shard:g1:4", nodes = "n1", job_state = 1,
	submit_time = clock - 5,
} }
check("shards of no type are counted where they are", goes({}, "n1", 0))

-- Whole GPUs.
fresh(table_of(ROWS))
check("job that asks for a GPU goes to the least score", goes(GPU, "n1", 1))
check("and has all of it", goes({}, "n2", 0) and goes(GPU, "n1", 0) and goes(GPU))
fresh(table_of("n1 1 0.100 1 0 8 1000\n"))
check("GPU without shards is chosen for such jobs alone", goes({}) and goes(GPU, "n1", 1))
fresh(table_of(ROWS))
slurm.jobs = {
	[-1] = { tres_per_node = "gres:shard:1", gres_used = "shard:g1:1", nodes = "n1", job_state = 1 },
	[-2] = { tres_per_node = "gres:gpu:1", gres_used = "gpu:g0:1,gpu:g1:0", nodes = "n2", job_state = 1 },
}
check("GPU of which shards are taken is not", goes(GPU, "n1", 0))
slurm.jobs[-3] = { tres_per_node = "gres:gpu:1", job_state = 0, submit_time = clock - 61, partition = "main", priority = 5 }
check("jobs that wait for GPUs are no queue for shards", goes(GPU) and goes({}, "n1", 1))

-- Two tables of one second and one size.
fresh(table_of("n1 0 0.100 1 4 8 1000\nn1 1 0.900 1 4 8 1000\n"))
local before = goes({}, "n1", 0)
loga.path = folder .. "/table"
write(table_of("n1 1 0.100 1 4 8 1000\nn1 0 0.900 1 4 8 1000\n"))
check("table of the same second and size is read anew", before and goes({}, "n1", 1))

-- 1,250 nodes of eight GPUs, the last of which has another partition.
local wide = {}
for at = 0, 9999 do
	wide[#wide + 1] = string.format("m%04d %d %.3f 1 4 64 512000\n", math.floor(at / 8) + 1, at % 8, at / 10000)
end
wide = table.concat(wide)
local CLUSTER = {
	all = { nodes = "m[0001-1250]", flag_default = 1 }, last = { nodes = "m1250", flag_default = 0 },
}
fresh(table_of(wide))
check("best of ten thousand rows is chosen", goes({}, "m0001", 0, CLUSTER))
check("last of ten thousand rows is chosen", goes({ partition = "last" }, "m1250", 0, CLUSTER))

-- What became of jobs is said once a minute.
fresh(table_of(ROWS))
informed = {}
goes({})
goes({ tres_per_node = "" })
goes({ features = "a" })
later(60, ROWS)
goes({ features = "a" })
check("reasons are counted and said once a minute", #informed == 1
	and informed[1] == "loga: in 60 s: 1 placed, 2 left alone (features)")

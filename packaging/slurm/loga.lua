-- SPDX-License-Identifier: GPL-2.0
--
-- Chooses the node and the GPU of a job that asks for shards, when it is submitted, from the
-- table that `loga slurm table` writes. Called from the site's job_submit.lua:
--
--     local loga = dofile("/etc/slurm/loga.lua")
--     ... loga.place(job_desc, part_list, submit_uid) ...
--
-- It runs inside slurmctld: it reads one file of bounded size and nothing else, asks no other
-- program, and leaves a job alone whenever something is missing, old, unusual or wrong. A job's
-- texts are compared and matched, never executed. Lua 5.1, as Slurm is built with.
--
-- Lua cannot tell the owner of a file: the folder of the table has to be one that only root or
-- the user of slurmctld can write.

local loga = {
	-- The table.
	path = "/run/loga-slurm/table",
	-- A table that is older, in seconds, is not used.
	max_age = 30,
	-- How long a choice counts as load, in seconds: the table shows it by then.
	claim = 60,
	-- Jobs that wait for longer than this, in seconds, make the queue a long one.
	patience = 60,
}

local MAX_TABLE = 512 * 1024
local MAX_ROWS = 4096
local MAX_CLAIMS = 4096
local MAX_JOBS = 10000
local MAX_TEXT = 4096
-- What a newcomer of which nothing is known is taken to add: half a GPU.
local CLAIMED = 0.5

-- Choices of the last `claim` seconds, oldest first. They live as long as the controller's
-- process has this script loaded.
local claims = {}
-- The table that was read last, by its first line.
local known_header, known_rows
local complained = 0

-- A number from the API that is set: unset ones are the largest of `bits` bits, or one less.
local function number(value, bits)
	if type(value) ~= "number" or value ~= value or value < 0 or value >= 2 ^ (bits or 32) - 2 then
		return nil
	end
	return value
end

local function text(value)
	if type(value) == "string" and value ~= "" then
		return value
	end
	return nil
end

-- One element of a list such as n[1-3,07]: whether it names the node. With more than one pair of
-- brackets: no.
local function element_names(element, node)
	local before, ranges, after = element:match("^([^%[%]]*)%[([%d,%-]+)%]([^%[%]]*)$")
	if not before then
		return element == node
	end
	if #node <= #before + #after or node:sub(1, #before) ~= before or
		(#after > 0 and node:sub(-#after) ~= after) then
		return false
	end
	local digits = node:sub(#before + 1, #node - #after)
	if #digits > 9 or not digits:match("^%d+$") then
		return false
	end
	for range in ranges:gmatch("[^,]+") do
		local first, last = range:match("^(%d+)%-(%d+)$")
		first = first or range:match("^%d+$")
		last = last or first
		-- As wide as written: n[01-10] has no n1.
		local wide = first and (#digits == #first or (#digits > #first and digits:sub(1, 1) ~= "0"))
		if wide and tonumber(digits) >= tonumber(first) and tonumber(digits) <= tonumber(last) then
			return true
		end
	end
	return false
end

-- Whether a list such as "a,n[1-3]" names the node.
function loga.names(list, node)
	local depth, start = 0, 1
	for at = 1, #list + 1 do
		local letter = list:sub(at, at)
		if letter == "[" then
			depth = depth + 1
		elseif letter == "]" then
			depth = depth - 1
		elseif letter == "" or (letter == "," and depth == 0) then
			if element_names(list:sub(start, at - 1), node) then
				return true
			end
			start = at + 1
		end
	end
	return false
end

-- "NODE GPU SCORE AGE SHARDS CPUS MEMORY"; nothing for a GPU of which the controller knows too
-- little. A false line makes the whole table useless.
local function parse_row(line)
	local node, gpu, score, age, shards, cpus, memory =
		line:match("^(%w[%w%.%-_]*) (%d+) (%d%.%d+) (%d+) (%S+) (%S+) (%S+)$")
	if not node or #node > 64 or #gpu > 2 or #age > 5 then
		error("false line")
	end
	if shards == "-" then
		return nil
	end
	for _, digits in ipairs({ shards, cpus, memory }) do
		if not digits:match("^%d+$") or #digits > 15 then
			error("false line")
		end
	end
	score = tonumber(score)
	if score > 1 then
		error("false line")
	end
	return {
		node = node,
		gpu = tonumber(gpu),
		-- How much longer a newcomer takes; the score is this over one plus this.
		slowdown = score / (1.001 - score),
		age = tonumber(age),
		shards = tonumber(shards),
		cpus = tonumber(cpus),
		memory = tonumber(memory),
	}
end

local function parse(content)
	local rows = {}
	local count = 0
	for line in content:gmatch("([^\n]*)\n") do
		count = count + 1
		if count > MAX_ROWS + 1 then
			error("too many lines")
		end
		if count > 1 then
			rows[#rows + 1] = parse_row(line)
		end
	end
	return rows
end

-- The rows of the table, or nothing if it is absent or old.
local function read_table(now)
	local file = io.open(loga.path, "r")
	if not file then
		return nil, "no table"
	end
	-- Never more than this, whatever the file is.
	local content = file:read(MAX_TABLE + 1)
	file:close()
	if not content or #content > MAX_TABLE or content:sub(-1) ~= "\n" then
		error("empty, cut off or too long")
	end
	local header = content:match("^[^\n]*")
	local time = header:match("^# loga%-slurm%-table 1 (%d+)$")
	if not time or #time > 12 then
		error("not a table of version 1")
	end
	local age = now - tonumber(time)
	if age > loga.max_age or age < -loga.max_age then
		return nil, "old table"
	end
	if header ~= known_header or #content ~= known_rows.size then
		local rows = parse(content)
		rows.size = #content
		known_header, known_rows = header, rows
	end
	return known_rows, nil, age
end

-- How many shards of no type a job asks for on a node, and the text before the number.
local function wanted_shards(asked)
	if #asked > 64 then
		return nil
	end
	local prefix, count = asked:match("^(gres[:/]shard):?(%d*)$")
	if not prefix or #count > 4 then
		return nil
	end
	count = count == "" and 1 or tonumber(count)
	if count < 1 then
		return nil
	end
	return count, prefix
end

-- What the job needs on one node, or nothing and why it is left alone.
local function needs(job)
	local asked = text(job.tres_per_node)
	if not asked then
		return nil, "no shards"
	end
	local shards, prefix = wanted_shards(asked)
	if not shards then
		return nil, "not plainly shards"
	end
	-- A list of nodes may be at odds with each of these.
	for _, field in ipairs({
		"req_nodes", "exc_nodes", "features", "reservation", "array_inx", "dependency",
		"tres_per_job", "tres_per_socket", "tres_per_task", "clusters", "burst_buffer",
	}) do
		if text(job[field]) then
			return nil, field
		end
	end
	if (number(job.min_nodes) or 1) > 1 then
		return nil, "several nodes"
	end
	if (number(job.begin_time) or 0) > 0 or number(job.priority) == 0 then
		return nil, "not to start now"
	end
	if number(job.het_job_offset) then
		return nil, "a part of a job"
	end
	local cpus = math.max(number(job.min_cpus) or 1,
		(number(job.num_tasks) or 1) * (number(job.cpus_per_task, 16) or 1))
	local memory = number(job.min_mem_per_node) or (number(job.min_mem_per_cpu) or 0) * cpus
	return { shards = shards, prefix = prefix, cpus = cpus, memory = memory }
end

-- The partition of the job: its name and its nodes.
local function partition_of(job, part_list)
	local name = text(job.partition)
	for key, part in pairs(part_list) do
		if name == nil and part.flag_default == 1 or name ~= nil and key == name then
			local nodes = text(part.nodes)
			if nodes and #nodes <= MAX_TEXT then
				return key, nodes
			end
		end
	end
	return nil
end

-- Shards that jobs have on nodes: of a GPU by "node gpu", of an unknown GPU by node. Or nothing
-- and why, if jobs that want GPUs wait in this partition for longer than the patience.
local function taken(partition, now)
	local used, count = {}, 0
	for _, other in pairs(slurm.jobs or {}) do
		count = count + 1
		if count > MAX_JOBS then
			return nil, "too many jobs"
		end
		local asked = text(other.tres_per_node)
		local gpu, shards
		if asked and #asked <= 64 then
			gpu, shards = asked:match("^gres[:/]shard:g(%d+):(%d+)$")
			if not gpu then
				shards = wanted_shards(asked)
			end
		end
		local since = now - (number(other.submit_time) or now)
		if shards and other.job_state == 0 and since > loga.patience and
			number(other.priority) ~= 0 then
			for name in (text(other.partition) or ""):gmatch("[^,]+") do
				if name == partition then
					return nil, "a long queue"
				end
			end
		end
		local node = text(other.nodes)
		-- Younger ones of ours are claims.
		if shards and other.job_state == 1 and node and (since > loga.claim or not gpu) then
			local key = gpu and (node .. " " .. gpu) or node
			used[key] = (used[key] or 0) + tonumber(shards)
		end
	end
	return used
end

-- Adds up the choices of the last seconds, and forgets older ones.
local function claimed(now)
	local kept, sums = {}, {}
	for _, claim in ipairs(claims) do
		-- A clock that was set back must not keep a claim for ever.
		if now - claim.time < loga.claim and now >= claim.time then
			kept[#kept + 1] = claim
			for _, key in ipairs({ claim.node .. " " .. claim.gpu, claim.node }) do
				local sum = sums[key] or { count = 0, shards = 0, cpus = 0, memory = 0 }
				sum.count = sum.count + 1
				sum.shards = sum.shards + claim.shards
				sum.cpus = sum.cpus + claim.cpus
				sum.memory = sum.memory + claim.memory
				sums[key] = sum
			end
		end
	end
	claims = kept
	return sums
end

local NOTHING = { count = 0, shards = 0, cpus = 0, memory = 0 }

-- The row of the least expected slowdown that has room.
local function choose(rows, age, need, nodes, used, sums)
	local best, least
	for _, row in ipairs(rows) do
		local on_gpu = sums[row.node .. " " .. row.gpu] or NOTHING
		local on_node = sums[row.node] or NOTHING
		local shards = (used[row.node .. " " .. row.gpu] or 0) + (used[row.node] or 0) + on_gpu.shards
		local fits = row.age + age <= loga.max_age
			and shards + need.shards <= row.shards
			and on_node.cpus + need.cpus <= row.cpus
			and on_node.memory + need.memory <= row.memory
		local cost = row.slowdown + CLAIMED * on_gpu.count
		if fits and (not least or cost < least) and loga.names(nodes, row.node) then
			best, least = row, cost
		end
	end
	return best
end

local function place(job, part_list)
	local need, why = needs(job)
	if not need then
		return nil, why
	end
	local now = os.time()
	local rows, missing, age = read_table(now)
	if not rows then
		return nil, missing
	end
	local partition, nodes = partition_of(job, part_list)
	if not partition then
		return nil, "no single partition"
	end
	local sums = claimed(now)
	if #claims >= MAX_CLAIMS then
		return nil, "too many claims"
	end
	local used, long = taken(partition, now)
	if not used then
		return nil, long
	end
	local row = choose(rows, math.max(age, 0), need, nodes, used, sums)
	if not row then
		return nil, "no GPU with room"
	end
	local asked = job.tres_per_node
	job.tres_per_node = string.format("%s:g%d:%d", need.prefix, row.gpu, need.shards)
	local set = pcall(function() job.req_nodes = row.node end)
	if not set then
		-- Both or none.
		job.tres_per_node = asked
		error("req_nodes cannot be set")
	end
	claims[#claims + 1] = {
		time = now, node = row.node, gpu = row.gpu,
		shards = need.shards, cpus = need.cpus, memory = need.memory,
	}
	return row
end

-- Says what is wrong, at most once a minute.
local function complain(what)
	local now = os.time()
	if now - complained >= 60 or now < complained then
		complained = now
		slurm.log_error("%s", "loga: " .. tostring(what):sub(1, 200))
	end
end

-- Places a job, or leaves it as it is. The node and the number of the GPU, or nothing and why.
function loga.place(job_desc, part_list, submit_uid)
	local ran, row, why = pcall(place, job_desc, part_list, submit_uid)
	if not ran then
		pcall(complain, row)
		return nil, "error"
	end
	if not row then
		return nil, why
	end
	return row.node, row.gpu
end

return loga

-- SPDX-License-Identifier: GPL-2.0
--
-- An example of a site's script, /etc/slurm/job_submit.lua. Whatever goes wrong with LoGA's part,
-- the job goes on as if it were not there.

local found, loga = pcall(dofile, "/etc/slurm/loga.lua")
if not found then
	slurm.log_error("%s", "loga: " .. tostring(loga))
	loga = nil
end

function slurm_job_submit(job_desc, part_list, submit_uid)
	if loga then
		local node, gpu = loga.place(job_desc, part_list, submit_uid)
		if node then
			slurm.log_info("%s", "loga: user " .. tostring(submit_uid) .. " to " .. node .. " GPU " .. gpu)
		end
	end
	return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
	return slurm.SUCCESS
end
